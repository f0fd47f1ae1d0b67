package attack

import (
	"encoding/json"
	"net/http"

	"k8s.io/client-go/tools/clientcmd"
)

// nodeOf reads the answer to a registration. It returns nil for a refusal.
func (s *Server) nodeOf(answer *http.Response) *Node {
	var connection struct {
		KubeConfig string `json:"kubeConfig"`
		Namespace  string `json:"namespace"`
		SecretName string `json:"secretName"`
	}
	if answer.StatusCode != http.StatusOK || json.NewDecoder(answer.Body).Decode(&connection) != nil {
		return nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(connection.KubeConfig))
	if err != nil {
		return nil
	}
	return &Node{Server: s, Namespace: connection.Namespace, Secret: connection.SecretName, Token: config.BearerToken}
}
