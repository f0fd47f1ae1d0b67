package entrypoint

import (
	"io"
	"net/http"

	"k8s.io/client-go/tools/clientcmd"
)

// NewRelay returns a relay to the API of a kubeconfig.
func NewRelay(kubeconfig string, output io.Writer) (http.Handler, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return newRelay(config, 0, output)
}
