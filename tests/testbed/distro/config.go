package distro

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Runtime is the distribution that the process replaces.
type Runtime string

// The two runtimes.
const (
	RKE2 Runtime = "rke2"
	K3s  Runtime = "k3s"
)

// RuntimeOf returns the runtime of a Kubernetes version, as v1.36.3+k3s1.
func RuntimeOf(version string) Runtime {
	if strings.Contains(version, "+k3s") {
		return K3s
	}
	return RKE2
}

// SupervisorPort is the port at which joining nodes call a server.
func (r Runtime) SupervisorPort() int {
	if r == K3s {
		return apiPort
	}
	return 9345
}

// values are one or more words. The configuration accepts one word instead of a list.
type values []string

// UnmarshalJSON accepts a word, a number, a boolean or a list of them.
func (v *values) UnmarshalJSON(data []byte) error {
	var value any
	if err := yaml.Unmarshal(data, &value); err != nil {
		return err
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	*v = nil
	for _, item := range list {
		if item != nil {
			*v = append(*v, fmt.Sprint(item))
		}
	}
	return nil
}

// Config is the part of the distributions' configuration that the stand-in implements. It ignores unknown keys, because
// a real server has many more flags and Drover's checks are elsewhere.
type Config struct {
	ClusterInit              bool   `json:"cluster-init"`
	Server                   string `json:"server"`
	Token                    string `json:"token"`
	AgentToken               string `json:"agent-token"`
	DataDir                  string `json:"data-dir"`
	NodeName                 string `json:"node-name"`
	NodeIP                   values `json:"node-ip"`
	NodeExternalIP           values `json:"node-external-ip"`
	AdvertiseAddress         string `json:"advertise-address"`
	NodeLabel                values `json:"node-label"`
	NodeTaint                values `json:"node-taint"`
	TLSSAN                   values `json:"tls-san"`
	ServiceCIDR              values `json:"service-cidr"`
	ClusterCIDR              values `json:"cluster-cidr"`
	DisableAPIServer         bool   `json:"disable-apiserver"`
	DisableControllerManager bool   `json:"disable-controller-manager"`
	DisableScheduler         bool   `json:"disable-scheduler"`
	DisableEtcd              bool   `json:"disable-etcd"`
	DisableCloudController   bool   `json:"disable-cloud-controller"`
	SecretsEncryption        bool   `json:"secrets-encryption"`
	APIServerArg             values `json:"kube-apiserver-arg"`
	ControllerManagerArg     values `json:"kube-controller-manager-arg"`
	SchedulerArg             values `json:"kube-scheduler-arg"`
	EtcdArg                  values `json:"etcd-arg"`
	EtcdSnapshotDir          string `json:"etcd-snapshot-dir"`
	EtcdSnapshotRetention    *int   `json:"etcd-snapshot-retention"`
	S3
}

// Settings are settings of the command line by their keys. They replace settings of the configuration.
type Settings map[string]any

// with returns the configuration with other settings.
func (c Config) with(settings Settings) (Config, error) {
	data, err := json.Marshal(settings)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read settings of the command line: %w", err)
	}
	return c, nil
}

// LoadConfig reads config.yaml and then config.yaml.d/*.yaml by name below dir. A key of a later file replaces the
// earlier one. As in the real distributions, a key with a trailing "+" appends to the list instead.
func LoadConfig(dir string) (Config, error) {
	files := []string{filepath.Join(dir, "config.yaml")}
	dropIns, err := filepath.Glob(filepath.Join(dir, "config.yaml.d", "*.yaml"))
	if err != nil {
		return Config{}, fmt.Errorf("list configuration: %w", err)
	}
	slices.Sort(dropIns)
	merged := map[string]any{}
	for _, file := range append(files, dropIns...) {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Config{}, fmt.Errorf("read configuration: %w", err)
		}
		if err := mergeYAML(merged, data); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", file, err)
		}
	}
	data, err := yaml.Marshal(merged)
	if err != nil {
		return Config{}, fmt.Errorf("merge configuration: %w", err)
	}
	var config Config
	if err := yaml.Unmarshal(data, &config); err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return config, nil
}

func mergeYAML(into map[string]any, data []byte) error {
	var file map[string]any
	if err := yaml.Unmarshal(data, &file); err != nil {
		return err
	}
	for key, value := range file {
		base, adds := strings.CutSuffix(key, "+")
		if adds {
			value = append(asList(into[base]), asList(value)...)
		}
		into[base] = value
	}
	return nil
}

func asList(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}
