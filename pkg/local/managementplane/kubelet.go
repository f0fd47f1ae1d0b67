package managementplane

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// processKubelet describes the node whose pods are local processes. The program process-kubelet of drover-kube reads
// its configuration file. The field names are the contract between the two.
func processKubelet(s settings) Component {
	c := s.certs
	kubeconfig := kubeconfigFile(s, "kubelet.kubeconfig", c.kubelet)
	images := s.Images
	if images == nil {
		images = []Image{}
	}
	config := map[string]any{
		"nodeName":       s.NodeName,
		"dir":            filepath.Join(s.Dir, "kubelet"),
		"kubeconfig":     kubeconfig.Path,
		"address":        s.BindAddress,
		"port":           s.ports.Kubelet,
		"healthAddress":  hostPort(loopback, s.ports.KubeletHealth),
		"tlsCertFile":    c.kubeletServing.CertFile,
		"tlsKeyFile":     c.kubeletServing.KeyFile,
		"clientCAFile":   c.clusterCA.CertFile,
		"allowedClients": []string{apiServerToKubeletUser},
		"endPodsOnExit":  s.EndPods,
		"images":         images,
	}
	if len(s.Networks) > 0 {
		config["networks"] = s.Networks
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		// A map of strings, numbers and Image can always be encoded as YAML.
		panic(fmt.Sprintf("encode process-kubelet configuration: %v", err))
	}
	file := File{Path: s.runFile("kubelet.yaml"), Content: content}
	return Component{
		Name:  ProcessKubelet,
		Args:  []string{"--config=" + file.Path},
		Files: []File{kubeconfig, file},
		Ready: ReadyCheck{URL: "http://" + hostPort(loopback, s.ports.KubeletHealth) + "/readyz"},
		Grace: 20 * time.Second,
	}
}

// kubeconfigFile makes a kubeconfig with the paths of certificate files, so that a renewed certificate needs no new
// kubeconfig.
func kubeconfigFile(s settings, name string, client pki.Pair) File {
	return File{Path: s.runFile(name), Content: kubeconfig(kubeconfigInput{
		server: s.apiURL(),
		cluster: map[string]any{
			"certificate-authority": s.certs.clusterCA.CertFile,
		},
		user: map[string]any{
			"client-certificate": client.CertFile,
			"client-key":         client.KeyFile,
		},
	})}
}

type kubeconfigInput struct {
	server        string
	cluster, user map[string]any
}

// kubeconfig encodes as JSON, which is valid YAML and needs no quoting rules.
func kubeconfig(in kubeconfigInput) []byte {
	in.cluster["server"] = in.server
	content, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters":   []any{map[string]any{"name": "drover", "cluster": in.cluster}},
		"users":      []any{map[string]any{"name": "drover", "user": in.user}},
		"contexts": []any{map[string]any{"name": "drover",
			"context": map[string]any{"cluster": "drover", "user": "drover"}}},
		"current-context": "drover",
	}, "", "  ")
	if err != nil {
		// Maps of strings and byte slices can always be encoded as JSON.
		panic(fmt.Sprintf("encode kubeconfig: %v", err))
	}
	return append(content, '\n')
}
