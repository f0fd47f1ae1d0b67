package distro

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// kubeletConfig is the configuration file of drover-kube's process kubelet.
type kubeletConfig struct {
	NodeName       string               `json:"nodeName"`
	Dir            string               `json:"dir"`
	Kubeconfig     string               `json:"kubeconfig"`
	Address        string               `json:"address"`
	Port           int                  `json:"port"`
	HealthAddress  string               `json:"healthAddress"`
	TLSCertFile    string               `json:"tlsCertFile"`
	TLSKeyFile     string               `json:"tlsKeyFile"`
	ClientCAFile   string               `json:"clientCAFile"`
	AllowedClients []string             `json:"allowedClients"`
	EndPodsOnExit  bool                 `json:"endPodsOnExit"`
	Images         []map[string]any     `json:"images"`
	Labels         map[string]string    `json:"labels,omitempty"`
	Taints         []corev1.Taint       `json:"taints,omitempty"`
	ExtraAddresses []corev1.NodeAddress `json:"extraAddresses,omitempty"`
	ProviderID     string               `json:"providerID"`
	Version        string               `json:"version"`
}

// images are the images that a node can run: a program that waits until it is stopped, and Drover's cluster agent. The
// install script has put the agent's program on the node as the node agent.
func (r *run) images() []map[string]any {
	return []map[string]any{
		{"match": "drover.test/pause*", "program": "/usr/bin/sleep", "args": []string{"infinity"}, "user": 65534},
		{"match": "*drover*", "program": r.layout.bin("drover"), "user": 65532},
	}
}

// kubelet runs the node's kubelet against the API server at the given address.
func (r *run) kubelet(api string) task {
	return func(ctx context.Context) error {
		kubeconfig := r.layout.agent("kubelet.kubeconfig")
		if err := writeKubeconfig(kubeconfig, api, r.layout.agent("server-ca.crt"), r.layout.agent("client-kubelet"),
			false); err != nil {
			return err
		}
		config := kubeletConfig{
			NodeName: r.node.Name, Dir: r.layout.agent("kubelet"), Kubeconfig: kubeconfig,
			Address: r.node.IP.String(), Port: 10250, HealthAddress: fmt.Sprintf("127.0.0.1:%d", kubeletHealth),
			TLSCertFile: r.layout.agent("serving-kubelet.crt"), TLSKeyFile: r.layout.agent("serving-kubelet.key"),
			ClientCAFile: r.layout.agent("client-ca.crt"), AllowedClients: []string{"system:apiserver"},
			Images: r.images(), Labels: nodeLabels(r.config), Taints: nodeTaints(r.config),
			ExtraAddresses: externalAddresses(r.config),
			ProviderID:     string(r.Runtime) + "://" + r.node.Name, Version: r.Version,
		}
		data, err := yaml.Marshal(config)
		if err != nil {
			return fmt.Errorf("encode kubelet configuration: %w", err)
		}
		file := r.layout.agent(filepath.Join("etc", "process-kubelet.yaml"))
		if err := localfile.Write(file, data); err != nil {
			return err
		}
		return r.program(component{program: "process-kubelet", args: []string{"--config=" + file}})(ctx)
	}
}

// nodeLabels parses "key=value" settings.
func nodeLabels(config Config) map[string]string {
	labels := map[string]string{}
	for _, setting := range config.NodeLabel {
		key, value, _ := strings.Cut(setting, "=")
		labels[key] = value
	}
	return labels
}

// nodeTaints parses "key=value:effect" settings. The value is optional.
func nodeTaints(config Config) []corev1.Taint {
	var taints []corev1.Taint
	for _, setting := range config.NodeTaint {
		front, effect, _ := strings.Cut(setting, ":")
		key, value, _ := strings.Cut(front, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints
}

func externalAddresses(config Config) []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, address := range config.NodeExternalIP {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: address})
	}
	return addresses
}
