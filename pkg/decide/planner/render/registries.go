package render

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

const fieldRegistries = "spec.rkeConfig.registries"

// registryChoice is the registry of the distribution's images.
type registryChoice struct {
	host string
	// global is true for the server's default, and false for the cluster's choice.
	global bool
}

// privateRegistry is the first of: machineGlobalConfig, the first machineSelectorConfig for all machines that names
// one, the server-wide setting.
func (m *machinePlan) privateRegistry() registryChoice {
	const key = "system-default-registry"
	if host, _ := m.spec.MachineGlobalConfig.Data[key].(string); host != "" {
		return registryChoice{host: host}
	}
	for _, entry := range m.spec.MachineSelectorConfig {
		if host, _ := entry.Config.Data[key].(string); selectsAll(entry.MachineLabelSelector) && host != "" {
			return registryChoice{host: host}
		}
	}
	return registryChoice{host: m.in.Settings.SystemDefaultRegistry, global: m.in.Settings.SystemDefaultRegistry != ""}
}

// resolveImage puts the private registry before an image. An image without an organization gets rancher's.
func resolveImage(registry, image string) string {
	if registry == "" || strings.HasPrefix(image, registry) {
		return image
	}
	if !strings.Contains(image, "/") {
		image = "rancher/" + image
	}
	return registry + "/" + image
}

// The JSON of containerd's registries file, as the distributions read it.
type (
	registriesFile struct {
		Configs map[string]registryHost `json:"configs"`
		Mirrors map[string]rkev1.Mirror `json:"mirrors"`
	}
	registryHost struct {
		Auth *registryAuth `json:"auth"`
		TLS  *registryTLS  `json:"tls"`
	}
	registryAuth struct {
		Username      string `json:"username"`
		Password      string `json:"password"`
		Auth          string `json:"auth"`
		IdentityToken string `json:"identity_token"`
	}
	registryTLS struct {
		CAFile             string `json:"ca_file"`
		CertFile           string `json:"cert_file"`
		KeyFile            string `json:"key_file"`
		InsecureSkipVerify bool   `json:"insecure_skip_verify"`
	}
)

// fileAgentRegistries gives the node agent the distribution's registries. The agent reads them without a restart.
func (m *machinePlan) fileAgentRegistries() error {
	content, err := m.registries()
	if err != nil || content == nil {
		return err
	}
	file := fileOf(distro.AgentRegistriesFile, content)
	file.Dynamic = true
	m.addFile(file)
	return nil
}

// fileRegistries always exists, so that registries disappear from the node when the user removes them.
func (m *machinePlan) fileRegistries() error {
	content, err := m.registries()
	if err != nil {
		return err
	}
	m.addFile(fileOf(m.runtime.RegistriesFile(), content))
	return nil
}

// registries is the content of the registries file, nil without a registry. Two files contain it.
func (m *machinePlan) registries() ([]byte, error) {
	if m.registriesJSON != nil {
		return m.registriesJSON, nil
	}
	private := m.privateRegistry()
	if m.spec.Registries == nil && !private.global {
		return nil, nil
	}
	file := registriesFile{Configs: map[string]registryHost{}, Mirrors: map[string]rkev1.Mirror{}}
	if m.spec.Registries != nil {
		maps.Copy(file.Mirrors, m.spec.Registries.Mirrors)
		for _, host := range slices.Sorted(maps.Keys(m.spec.Registries.Configs)) {
			entry, err := m.registryHost(host, m.spec.Registries.Configs[host])
			if err != nil {
				return nil, err
			}
			file.Configs[host] = entry
		}
	}
	if private.global {
		m.addGlobalAuth(file.Configs, private.host)
	}
	content, err := json.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encode registries of the node: %w", err)
	}
	m.registriesJSON = content
	return content, nil
}

func (m *machinePlan) registryHost(host string, config rkev1.RegistryConfig) (registryHost, error) {
	auth, err := m.registryAuth(host, config.AuthConfigSecretName)
	if err != nil {
		return registryHost{}, err
	}
	entry := registryHost{Auth: auth}
	if !config.InsecureSkipVerify && config.TLSSecretName == "" && len(config.CABundle) == 0 {
		return entry, nil
	}
	entry.TLS = &registryTLS{InsecureSkipVerify: config.InsecureSkipVerify}
	if config.TLSSecretName != "" {
		entry.TLS.CertFile = m.dirs.RegistryTLS(host, "tls.crt")
		entry.TLS.KeyFile = m.dirs.RegistryTLS(host, "tls.key")
	}
	if len(config.CABundle) > 0 {
		entry.TLS.CAFile = m.dirs.RegistryTLS(host, "ca.crt")
	}
	return entry, nil
}

// registryAuth reads a registry's credentials from one of the three possible types of Secret.
func (m *machinePlan) registryAuth(host, secretName string) (*registryAuth, error) {
	if secretName == "" {
		return nil, nil
	}
	field := fmt.Sprintf("%s.configs[%s].authConfigSecretName", fieldRegistries, host)
	name := m.local(secretName)
	secret, err := m.secret(field, name)
	if err != nil {
		return nil, err
	}
	switch secret.Type {
	case rkev1.SecretTypeAuthConfig, corev1.SecretTypeBasicAuth:
		return &registryAuth{
			Username:      string(secret.Data[rkev1.AuthConfigUsernameKey]),
			Password:      string(secret.Data[rkev1.AuthConfigPasswordKey]),
			Auth:          base64.StdEncoding.EncodeToString(secret.Data[rkev1.AuthConfigAuthKey]),
			IdentityToken: string(secret.Data[rkev1.AuthConfigIdentityTokenKey]),
		}, nil
	case corev1.SecretTypeDockerConfigJson:
		auth, problem := dockerAuth(secret, host)
		if problem != "" {
			return nil, fmt.Errorf("%s: Secret %s %s", field, name, problem)
		}
		return auth, nil
	default:
		return nil, fmt.Errorf("%s: Secret %s has the wrong type: it must be %s, %s or %s",
			field, name, rkev1.SecretTypeAuthConfig, corev1.SecretTypeBasicAuth, corev1.SecretTypeDockerConfigJson)
	}
}

// dockerAuth returns the entry for a host in a dockerconfigjson Secret. The problem, if any, completes "Secret x …" and
// contains nothing from the Secret.
func dockerAuth(secret Secret, host string) (auth *registryAuth, problem string) {
	var config struct {
		Auths map[string]struct {
			Username, Password, Auth string
			IdentityToken            string `json:"identitytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config) != nil {
		return nil, "has no valid JSON under " + corev1.DockerConfigJsonKey
	}
	entry, ok := config.Auths[host]
	if !ok {
		return nil, "has no entry for registry " + host
	}
	user, password := entry.Username, entry.Password
	if raw, err := base64.StdEncoding.DecodeString(entry.Auth); user == "" && password == "" && err == nil {
		user, password, _ = strings.Cut(string(raw), ":")
	}
	auth = &registryAuth{Username: user, Password: password, IdentityToken: entry.IdentityToken}
	if user != "" || password != "" {
		auth.Auth = base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	return auth, ""
}

// addGlobalAuth gives the server's default registry the first usable pull secret, unless the cluster configures that
// host.
func (m *machinePlan) addGlobalAuth(configs map[string]registryHost, registry string) {
	host, _, _ := strings.Cut(registry, "/")
	if _, own := configs[host]; own {
		return
	}
	for _, name := range m.in.Settings.RegistryPullSecrets {
		secret, ok := m.in.Objects.Secrets[name]
		problem := "does not exist"
		if ok {
			problem = "does not have type " + string(corev1.SecretTypeDockerConfigJson)
		}
		if ok && secret.Type == corev1.SecretTypeDockerConfigJson {
			var auth *registryAuth
			if auth, problem = dockerAuth(secret, host); problem == "" {
				configs[host] = registryHost{Auth: auth}
				return
			}
		}
		m.warn(ReasonUnusablePullSecret, "system-default-registry-pull-secrets", "Secret %s %s and is skipped", name,
			problem)
	}
}

// filesRegistryTLS writes the certificates that the registries file refers to.
func (m *machinePlan) filesRegistryTLS() error {
	if m.spec.Registries == nil {
		return nil
	}
	var files []plan.File
	for _, host := range slices.Sorted(maps.Keys(m.spec.Registries.Configs)) {
		ofHost, err := m.registryTLS(host, m.spec.Registries.Configs[host])
		if err != nil {
			return err
		}
		files = append(files, ofHost...)
	}
	slices.SortFunc(files, func(a, b plan.File) int { return cmp.Compare(a.Path, b.Path) })
	for _, file := range files {
		m.addFile(file)
	}
	return nil
}

func (m *machinePlan) registryTLS(host string, config rkev1.RegistryConfig) ([]plan.File, error) {
	field := fmt.Sprintf("%s.configs[%s]", fieldRegistries, host)
	var files []plan.File
	if len(config.CABundle) > 0 {
		files = append(files, fileOf(m.dirs.RegistryTLS(host, "ca.crt"), config.CABundle))
	}
	if config.TLSSecretName != "" {
		name := m.local(config.TLSSecretName)
		secret, err := m.secret(field+".tlsSecretName", name)
		if err != nil {
			return nil, err
		}
		if secret.Type != corev1.SecretTypeTLS {
			return nil, fmt.Errorf("%s.tlsSecretName: Secret %s has the wrong type: it must be %s", field, name,
				corev1.SecretTypeTLS)
		}
		files = append(files,
			fileOf(m.dirs.RegistryTLS(host, "tls.crt"), secret.Data[corev1.TLSCertKey]),
			fileOf(m.dirs.RegistryTLS(host, "tls.key"), secret.Data[corev1.TLSPrivateKeyKey]))
	}
	// The host becomes a directory and must not lead out of its parent.
	if len(files) > 0 && (host == "" || slices.Contains(strings.Split(host, "/"), "..")) {
		return nil, fmt.Errorf("%s: the key must be a registry's host, with its port if it has one", field)
	}
	return files, nil
}
