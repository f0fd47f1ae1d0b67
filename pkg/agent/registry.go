package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"
)

// registries is the registries.yaml of the agent, RKE2 and K3s.
type registries struct {
	Mirrors map[string]mirror         `json:"mirrors"`
	Configs map[string]registryConfig `json:"configs"`
}

type mirror struct {
	Endpoints []string          `json:"endpoint"`
	Rewrites  map[string]string `json:"rewrite"`
}

type registryConfig struct {
	Auth *registryAuth `json:"auth"`
	TLS  *registryTLS  `json:"tls"`
}

type registryAuth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identity_token"`
}

type registryTLS struct {
	CAFile             string `json:"ca_file"`
	CertFile           string `json:"cert_file"`
	KeyFile            string `json:"key_file"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify"`
}

// loadRegistries reads the first existing file. Errors never contain the content.
func loadRegistries(files []string) (registries, error) {
	for _, path := range files {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return registries{}, fmt.Errorf("read registries file: %w", err)
		}
		var r registries
		if yaml.Unmarshal(data, &r) != nil {
			return registries{}, fmt.Errorf("registries file %s must have the documented format", path)
		}
		return r, nil
	}
	return registries{}, nil
}

// endpoint is a place to pull an image from.
type endpoint struct {
	url        *url.URL
	repository string
	// namespace is the original registry, which mirrors need. It is empty for the registry itself.
	namespace string
}

const (
	hubName = "docker.io"
	hubHost = "index.docker.io"
)

// endpoints lists the endpoints of a repository: the mirrors of its registry or else those of "*", then the registry
// itself.
func (r registries) endpoints(repo name.Repository) ([]endpoint, error) {
	registry := repo.RegistryStr()
	keys := []string{registry}
	if registry == hubHost {
		keys = []string{hubName, hubHost, "registry-1.docker.io"}
	}
	var out []endpoint
	for _, key := range append(keys, "*") {
		m, ok := r.Mirrors[key]
		if !ok {
			continue
		}
		repository := m.rewrite(repo.RepositoryStr())
		for _, text := range m.Endpoints {
			u, err := url.Parse(withScheme(text))
			if err != nil || u.Host == "" {
				return nil, fmt.Errorf("mirrors[%q].endpoint must be a list of URLs", key)
			}
			namespace := registry
			if namespace == hubHost {
				namespace = hubName
			}
			out = append(out, endpoint{url: u, repository: repository, namespace: namespace})
		}
		break
	}
	scheme := repo.Scheme()
	return append(out, endpoint{url: &url.URL{Scheme: scheme, Host: registry}, repository: repo.RepositoryStr()}), nil
}

// rewrite applies the first matching rule. Rules are sorted by expression, so that the same file always gives the same
// result.
func (m mirror) rewrite(repository string) string {
	for _, expression := range slices.Sorted(maps.Keys(m.Rewrites)) {
		re, err := regexp.Compile(expression)
		if err == nil && re.MatchString(repository) {
			return re.ReplaceAllString(repository, m.Rewrites[expression])
		}
	}
	return repository
}

func withScheme(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	return "https://" + text
}

// configFor returns the settings of a host.
func (r registries) configFor(host string) registryConfig {
	keys := []string{host}
	if host == hubHost || host == "registry-1.docker.io" {
		keys = []string{host, hubName, "registry-1.docker.io", hubHost}
	}
	for _, key := range keys {
		for _, form := range []string{key, "https://" + key, "http://" + key} {
			if c, ok := r.Configs[form]; ok {
				return c
			}
		}
	}
	return registryConfig{}
}

// fromRegistry tries the endpoints in order. The first endpoint that serves the complete image wins. The layers become
// files in dir. The error contains the answers of all endpoints.
func (i *images) fromRegistry(ctx context.Context, ref name.Reference, dir string) (v1.Image, error) {
	r, err := loadRegistries(i.registriesFile)
	if err != nil {
		return nil, err
	}
	places, err := r.endpoints(ref.Context())
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, place := range places {
		img, err := r.pull(ctx, place, ref)
		if err == nil {
			img, err = download(img, dir)
		}
		if err == nil {
			return img, nil
		}
		problems = append(problems, fmt.Errorf("pull from %s: %w", place.url.Host, err))
	}
	return nil, errors.Join(problems...)
}

func (r registries) pull(ctx context.Context, place endpoint, ref name.Reference) (v1.Image, error) {
	options := []name.Option{name.WeakValidation}
	if place.url.Scheme == "http" {
		options = append(options, name.Insecure)
	}
	separator := ":"
	if _, byDigest := ref.(name.Digest); byDigest {
		separator = "@"
	}
	target, err := name.ParseReference(place.url.Host+"/"+place.repository+separator+ref.Identifier(), options...)
	if err != nil {
		return nil, errors.New("the rewrite rule makes an invalid name")
	}
	config := r.configFor(place.url.Host)
	transport, err := config.transport(place)
	if err != nil {
		return nil, err
	}
	return remote.Image(target, remote.WithContext(ctx), remote.WithPlatform(platform()),
		remote.WithTransport(transport), config.keychain(target))
}

// keychain is the configured login, or the user's docker configuration without one.
func (c registryConfig) keychain(ref name.Reference) remote.Option {
	if c.Auth == nil {
		auth, err := authn.DefaultKeychain.Resolve(ref.Context())
		if err != nil {
			auth = authn.Anonymous
		}
		return remote.WithAuth(auth)
	}
	return remote.WithAuth(authn.FromConfig(authn.AuthConfig{
		Username: c.Auth.Username, Password: c.Auth.Password, Auth: c.Auth.Auth, IdentityToken: c.Auth.IdentityToken,
	}))
}

func (c registryConfig) transport(place endpoint) (http.RoundTripper, error) {
	base := remote.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = answerTimeout
	if c.TLS != nil {
		cfg, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		base.TLSClientConfig = cfg
	}
	prefix := strings.TrimSuffix(strings.TrimSuffix(place.url.Path, "/"), "/v2")
	if at := strings.Index(place.url.Path, "/v2/"); at >= 0 {
		prefix = strings.TrimSuffix(place.url.Path, "/")
	}
	return endpointTransport{base: stallGuard{base: base}, place: place, prefix: prefix}, nil
}

func (t registryTLS) config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.InsecureSkipVerify} //nolint:gosec // the user's registries.yaml asks for it
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(pem)
		cfg.RootCAs = pool
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read cert_file and key_file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// endpointTransport sets the path of requests to a mirror and adds the name of the original registry. Requests to other
// hosts, such as token servers, are unchanged.
type endpointTransport struct {
	base   http.RoundTripper
	place  endpoint
	prefix string
}

func (t endpointTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != t.place.url.Host || !strings.HasPrefix(request.URL.Path, "/v2/") {
		return t.base.RoundTrip(request)
	}
	request = request.Clone(request.Context())
	request.URL.Scheme = t.place.url.Scheme
	switch {
	case strings.Contains(t.prefix, "/v2/"):
		// In an endpoint such as https://host/v2/project, the project follows /v2.
		request.URL.Path = t.prefix + strings.TrimPrefix(request.URL.Path, "/v2")
	default:
		request.URL.Path = t.prefix + request.URL.Path
	}
	if t.place.namespace != "" {
		query := request.URL.Query()
		query.Set("ns", t.place.namespace)
		request.URL.RawQuery = query.Encode()
	}
	return t.base.RoundTrip(request)
}
