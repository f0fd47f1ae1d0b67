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
	// Labels, Annotations, Taints and ProviderID are given to the Node when it is created.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []corev1.Taint    `json:"taints,omitempty"`
	ProviderID  string            `json:"providerID,omitempty"`
	// Version is reported as the kubelet's version; default the version of this program.
	Version string `json:"version,omitempty"`
	// Dir keeps pods and their logs.
	Dir string `json:"dir"`
	// Kubeconfig is the path of the credentials for the API server. A node's identity (system:node:NAME) suffices.
	Kubeconfig string `json:"kubeconfig"`
	// Address is the node's address, told to the API server and given to every pod that has no other; Port serves logs, exec and port
	// forwarding there.
	Address string `json:"address"`
	// ExtraAddresses are reported on the Node after Address.
	ExtraAddresses []corev1.NodeAddress `json:"extraAddresses,omitempty"`
	Port           int                  `json:"port"`
	// HealthAddress is where /healthz and /readyz answer in plain HTTP.
	HealthAddress string `json:"healthAddress"`
	// TLSCertFile and TLSKeyFile serve on Port. ClientCAFile and AllowedClients (common names) say who may ask.
	TLSCertFile    string   `json:"tlsCertFile"`
	TLSKeyFile     string   `json:"tlsKeyFile"`
	ClientCAFile   string   `json:"clientCAFile"`
	AllowedClients []string `json:"allowedClients"`
	// EndPodsOnExit ends the pods when the kubelet is told to stop. Otherwise they run on and are found again.
	EndPodsOnExit bool `json:"endPodsOnExit,omitempty"`
	// Networks are namespaces for pods, each of which has one as long as it lives, unless it asks for the host's network. Without any, all pods
	// have Address.
	Networks []Network `json:"networks,omitempty"`
	// Images is the image table; the first match wins.
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
