package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"
)

// Default paths (docs/wire/plan.md#files-of-the-agent).
const (
	DefaultConfigFile      = "/etc/rancher/agent/config.yaml"
	DefaultImagesDirectory = "/var/lib/rancher/agent/images"
	DefaultRegistriesFile  = "/etc/rancher/agent/registries.yaml"
)

// Config is the agent's configuration file. Install scripts of all releases write its keys.
type Config struct {
	// WorkDirectory contains the scratch directories of instructions. Each pass starts by deleting its content.
	WorkDirectory string `json:"workDirectory,omitempty"`
	// PreserveWorkDirectory keeps the scratch directories.
	PreserveWorkDirectory bool `json:"preserveWorkDirectory,omitempty"`
	// AppliedPlanDirectory keeps an outline of the last 64 applied plans, without secret content.
	AppliedPlanDirectory string `json:"appliedPlanDirectory,omitempty"`
	// InterlockDirectory contains the mark files through which the install script and the agent coordinate.
	InterlockDirectory string `json:"interlockDirectory,omitempty"`

	// RemoteEnabled makes the agent apply the plan of the plan Secret that ConnectionInfoFile names.
	RemoteEnabled      bool   `json:"remoteEnabled,omitempty"`
	ConnectionInfoFile string `json:"connectionInfoFile,omitempty"`

	// LocalEnabled makes the agent apply the *.plan files below LocalPlanDirectory.
	LocalEnabled       bool   `json:"localEnabled,omitempty"`
	LocalPlanDirectory string `json:"localPlanDirectory,omitempty"`

	// ImagesDirectory contains image archives. They take precedence over registries. Default DefaultImagesDirectory.
	ImagesDirectory string `json:"imagesDirectory,omitempty"`
	// AgentRegistriesFile takes precedence over the registries files of RKE2 and K3s. Default DefaultRegistriesFile.
	AgentRegistriesFile string `json:"agentRegistriesFile,omitempty"`

	// ImageCredentialProviderConfig and ImageCredentialProviderBinDirectory are accepted and ignored, as in the
	// reference.
	ImageCredentialProviderConfig       string `json:"imageCredentialProviderConfig,omitempty"`
	ImageCredentialProviderBinDirectory string `json:"imageCredentialProviderBinDirectory,omitempty"`
}

// ConnectionInfo is the server's answer at /v3/connect/agent: the location of the plan Secret.
type ConnectionInfo struct {
	// KubeConfig is a complete kubeconfig document as text.
	KubeConfig string `json:"kubeConfig"`
	// Namespace and SecretName identify the plan Secret.
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
}

// LoadConfig reads and checks a configuration file. The file must belong to the running user and have mode 0600.
func LoadConfig(path string) (Config, error) {
	var c Config
	if err := loadPrivate(path, &c); err != nil {
		return Config{}, err
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("configuration file %s: %w", path, err)
	}
	if c.ImagesDirectory == "" {
		c.ImagesDirectory = DefaultImagesDirectory
	}
	if c.AgentRegistriesFile == "" {
		c.AgentRegistriesFile = DefaultRegistriesFile
	}
	return c, nil
}

func (c Config) validate() error {
	switch {
	case !c.RemoteEnabled && !c.LocalEnabled:
		return errors.New("remoteEnabled or localEnabled must be true")
	case c.RemoteEnabled && c.ConnectionInfoFile == "":
		return errors.New("connectionInfoFile must be set when remoteEnabled is true")
	case c.LocalEnabled && c.LocalPlanDirectory == "":
		return errors.New("localPlanDirectory must be set when localEnabled is true")
	case c.WorkDirectory == "":
		return errors.New("workDirectory must be set")
	}
	return nil
}

// LoadConnection reads and checks a connection file. It requires the same owner and mode as LoadConfig.
func LoadConnection(path string) (ConnectionInfo, error) {
	var info ConnectionInfo
	if err := loadPrivate(path, &info); err != nil {
		return ConnectionInfo{}, err
	}
	for _, field := range []struct{ key, value string }{
		{"kubeConfig", info.KubeConfig}, {"namespace", info.Namespace}, {"secretName", info.SecretName},
	} {
		if field.value == "" {
			return ConnectionInfo{}, fmt.Errorf("connection file %s: %s must not be empty", path, field.key)
		}
	}
	return info, nil
}

// loadPrivate reads a JSON or YAML file. The file name selects the format. Errors never contain the content.
func loadPrivate(path string, into any) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("find file: %w", err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		return fmt.Errorf("file %s has mode %04o, must be 0600", path, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && (int(stat.Uid) != os.Getuid() || int(stat.Gid) != os.Getgid()) {
		return fmt.Errorf("file %s belongs to %d:%d, must belong to %d:%d", path, stat.Uid, stat.Gid, os.Getuid(),
			os.Getgid())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	base := filepath.Base(path)
	switch {
	case strings.Contains(base, ".json"):
		err = json.Unmarshal(data, into)
	case strings.Contains(base, ".yaml"):
		err = yaml.Unmarshal(data, into)
	default:
		return fmt.Errorf("file %s must have .json or .yaml in its name", path)
	}
	if err != nil {
		return fmt.Errorf("file %s must have the documented format", path)
	}
	return nil
}
