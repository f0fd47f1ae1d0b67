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

// restConfig converts connection information to a client configuration that verifies TLS. With requireCA the kubeconfig
// must contain a certificate authority. Otherwise a kubeconfig without one uses the system's authorities.
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
		return nil, errors.New(
			"certificate-authority-data in the kubeconfig must be set when strict verification is on")
	}
	cfg.UserAgent = "drover-agent"
	// Use JSON only, so that servers need to support nothing else.
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// The agent watches a single Secret, so client-side rate limits would only delay its reports.
	cfg.QPS = -1
	return cfg, nil
}

// connect returns a client and checks it by reading the server's version. A wrong certificate or address ends the agent
// immediately, so that the restarts of the service manager make the problem visible.
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
