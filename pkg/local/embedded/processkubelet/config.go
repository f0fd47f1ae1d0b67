package processkubelet

import (
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Config is the configuration file.
type Config struct {
	// NodeName is the name of the Node.
	NodeName string `json:"nodeName"`
	// The Node gets Labels, Annotations, Taints and ProviderID when it is created.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []corev1.Taint    `json:"taints,omitempty"`
	ProviderID  string            `json:"providerID,omitempty"`
	// Version is the kubelet version that the Node reports. The default is the version of this program.
	Version string `json:"version,omitempty"`
	// Dir is the directory for pods and their logs.
	Dir string `json:"dir"`
	// Kubeconfig is the path of the credentials for the API server. A node's identity (system:node:NAME) suffices.
	Kubeconfig string `json:"kubeconfig"`
	// Address is the address of the node, and of every pod without its own network. Port serves logs, exec and port
	// forwarding there.
	Address string `json:"address"`
	// ExtraAddresses follow Address in the Node's status.
	ExtraAddresses []corev1.NodeAddress `json:"extraAddresses,omitempty"`
	Port           int                  `json:"port"`
	// HealthAddress serves /healthz and /readyz over plain HTTP.
	HealthAddress string `json:"healthAddress"`
	// TLSCertFile and TLSKeyFile are the serving certificate for Port. Clients need a certificate from ClientCAFile
	// with one of the common names AllowedClients.
	TLSCertFile    string   `json:"tlsCertFile"`
	TLSKeyFile     string   `json:"tlsKeyFile"`
	ClientCAFile   string   `json:"clientCAFile"`
	AllowedClients []string `json:"allowedClients"`
	// EndPodsOnExit ends the pods when the kubelet stops. Without it they continue, and the next kubelet resumes them.
	EndPodsOnExit bool `json:"endPodsOnExit,omitempty"`
	// Networks are network namespaces for pods. Each pod has one for its lifetime, unless it uses the host's network.
	// Without Networks, all pods have Address.
	Networks []Network `json:"networks,omitempty"`
	// Images is the image table. The first match wins.
	Images []Image `json:"images"`
}

// LoadConfig reads and checks a configuration file.
func LoadConfig(path string) (Config, error) {
	var config Config
	content, err := os.ReadFile(path)
	if err != nil {
		return config, fmt.Errorf("read configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		return config, fmt.Errorf("read configuration %s: %w", path, err)
	}
	if err := config.check(); err != nil {
		return config, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

func (c Config) check() error {
	var problems []error
	for _, field := range []struct{ name, value string }{
		{"nodeName", c.NodeName}, {"dir", c.Dir}, {"kubeconfig", c.Kubeconfig}, {"address", c.Address},
		{"tlsCertFile", c.TLSCertFile}, {"tlsKeyFile", c.TLSKeyFile}, {"clientCAFile", c.ClientCAFile},
	} {
		if field.value == "" {
			problems = append(problems, fmt.Errorf("%s: is required", field.name))
		}
	}
	if c.Port == 0 {
		problems = append(problems, errors.New("port: is required"))
	}
	for i, image := range c.Images {
		if err := image.check(); err != nil {
			problems = append(problems, fmt.Errorf("images[%d]: %w", i, err))
		}
	}
	for i, network := range c.Networks {
		if err := network.check(); err != nil {
			problems = append(problems, fmt.Errorf("networks[%d]: %w", i, err))
		}
	}
	return errors.Join(problems...)
}
