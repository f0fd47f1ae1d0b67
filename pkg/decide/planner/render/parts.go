package render

import (
	"fmt"
	"path"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// part is a file that a key of the main configuration refers to.
type part string

const (
	partS3CA          part = "s3-endpoint-ca"
	partAuditPolicy   part = "audit-policy-file"
	partCloudProvider part = "cloud-provider-config"
	partFlannel       part = "flannel-conf"
)

const (
	keyCloudProvider   = "cloud-provider-config"
	keyPrivateRegistry = "private-registry"
	// credentialKey is the key in the Secret of a secret:// value.
	credentialKey = "credential"
)

// layerFiles moves the content of files from values into these files, and replaces the values with their paths.
func (m *machinePlan) layerFiles() error {
	for _, p := range []part{partAuditPolicy, partCloudProvider, partFlannel} {
		if err := m.moveToFile(p); err != nil {
			return err
		}
	}
	m.set(keyPrivateRegistry, m.runtime.RegistriesFile())
	return nil
}

func (m *machinePlan) moveToFile(p part) error {
	key := string(p)
	value, ok := m.config[key]
	if !ok {
		return nil
	}
	text, isText := value.(string)
	switch {
	case !isText && value != nil:
		m.warn(ReasonUnexpectedValue, m.origin[key], "Key %s must be the content of a file as text; Drover passes "+
			"its value through", key)
		return nil
	case text == "", path.IsAbs(text) && !strings.Contains(text, "\n"):
		return nil // no content of these kinds begins like a path, so this is the path of the user's own file
	}
	content := []byte(text)
	if p == partCloudProvider {
		var err error
		if content, err = m.cloudProviderConfig(text); err != nil {
			return err
		}
	}
	at := m.dirs.ConfigPart(key)
	m.parts[p] = fileOf(at, content)
	m.config[key] = at
	return nil
}

// cloudProviderConfig resolves a secret:// value; any other value is the content itself.
func (m *machinePlan) cloudProviderConfig(value string) ([]byte, error) {
	field := m.origin[keyCloudProvider]
	name, isSecret, err := parseSecretURL(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if !isSecret {
		return []byte(value), nil
	}
	secret, err := m.secret(field, name)
	if err != nil {
		return nil, err
	}
	// Secrets of other namespaces were checked earlier: Denied is set, or the cluster may use them.
	if name.Namespace == m.in.ControlPlane.Namespace &&
		!m.authorized(secret.Annotations, rkev1.AuthorizedSecretAnnotation) {
		return nil, fmt.Errorf("%s: Secret %s does not authorize cluster %s: add it to annotation %s",
			field, name, m.in.ControlPlane.Name, rkev1.AuthorizedSecretAnnotation)
	}
	content, ok := secret.Data[credentialKey]
	if !ok {
		return nil, fmt.Errorf("%s: Secret %s has no key %s", field, name, credentialKey)
	}
	return content, nil
}

// filePart is the step that adds one of these files if the configuration has it.
func filePart(p part) step {
	return func(m *machinePlan) error {
		if file, ok := m.parts[p]; ok {
			m.addFile(file)
		}
		return nil
	}
}
