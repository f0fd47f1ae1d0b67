package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// restConfig turns connection information into a client configuration that verifies TLS. requireCA demands a certificate
// authority in the kubeconfig; without it, the system's authorities serve when the kubeconfig has none.
func restConfig(info ConnectionInfo, requireCA bool) (*rest.Config, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(info.KubeConfig))
	if err != nil {
		return nil, errors.New("kubeConfig of the connection file is not a kubeconfig")
	}
	switch {
	case !strings.HasPrefix(cfg.Host, "https://"):
		return nil, errors.New("server in the kubeconfig must be an https URL")
	case cfg.Insecure:
		return nil, errors.New("insecure-skip-tls-verify in the kubeconfig must not be set")
	case requireCA && len(cfg.CAData) == 0 && cfg.CAFile == "":
		return nil, errors.New("certificate-authority-data in the kubeconfig must be set when strict verification is on")
	}
	cfg.UserAgent = "drover-agent"
	// The protocol is JSON: that is all that a server has to let pass.
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// The agent has one secret to watch. It must not slow itself down when it reports.
	cfg.QPS = -1
	return cfg, nil
}

// connect returns a client for the server after asking for its version: a wrong certificate or address ends the agent at
// once, and the service manager's restarts make that visible.
func connect(ctx context.Context, info ConnectionInfo, requireCA bool) (kubernetes.Interface, error) {
	cfg, err := restConfig(info, requireCA)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil {
		return nil, fmt.Errorf("reach server %s: %w", cfg.Host, err)
	}
	return client, nil
}
