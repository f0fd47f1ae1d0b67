package reach

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/reach/tunnel"
	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
	"github.com/drover-io/drover/tests/contract/attack"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// planRecheck is the interval in which Drover checks the plan tokens of open watches.
const planRecheck = time.Minute

// registrationToken returns the registration token of a cluster, and its Secret.
func (w *world) registrationToken(id string) (token string, secret *corev1.Secret) {
	w.Helper()
	plane.Until(w, time.Minute, func() string {
		secrets, err := w.upstream.CoreV1().Secrets(id).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for i := range secrets.Items {
			name, ok := registration.IsSecretName(secrets.Items[i].Name)
			if ok && name == "default-token" {
				secret = &secrets.Items[i]
				token = string(secret.Data[registration.KeyToken])
			}
		}
		if token == "" {
			return "the cluster has no registration token"
		}
		return ""
	})
	return token, secret
}

// connects returns the answer to a request for a session with a registration token.
func (w *world) connects(token string) string {
	w.Helper()
	_, answer := w.fetch(w.server.ServerURL+wire.PathConnect, http.Header{wire.HeaderToken: {token},
		wire.HeaderHeartbeat: {"10"}})
	return answer
}

// revokeAgent replaces the registration token of a connected agent. The session of the agent ends, and its token opens
// no other session. With the new token, the agent connects again.
func (w *world) revokeAgent(namespace, id string) {
	w.Helper()
	request := w.openWatch(w.permitted(namespace, id, "of-the-agent"))
	before, secret := w.registrationToken(id)
	request.staysOpen(recheck)
	w.must(w.upstream.CoreV1().Secrets(id).Delete(w.Context(), secret.Name, metav1.DeleteOptions{}))
	request.ends(tunnel.DefaultRecheck + slack)
	w.awaitCondition(id, "Connected", "False", 30*time.Second)
	if log := w.server.Log(); !strings.Contains(log, `reason="the registration token is no longer valid"`) {
		w.Error("the log does not say why the session has ended")
	}
	unknown := tunnel.ErrUnknownCluster.Error()
	if answer := w.connects(before); answer != unknown {
		w.Errorf("the answer to the revoked token is %q", answer)
	}
	after := before
	plane.Until(w, time.Minute, func() string {
		if after, _ = w.registrationToken(id); after == before {
			return "the cluster has no new token"
		}
		if answer := w.connects(after); answer == unknown {
			return "the new token is refused"
		}
		return ""
	})
	w.must(os.WriteFile(filepath.Join(w.dir, id+"-registration"), []byte(after), 0o600))
	w.awaitCondition(id, "Connected", "True", time.Minute)
}

// registerHost registers a host in a new cluster, and returns its plan token.
func (w *world) registerHost(namespace string) *attack.Node {
	w.Helper()
	id := w.make(namespace, "hosts", map[string]any{"kubernetesVersion": stage.K3s, "rkeConfig": map[string]any{}})
	token, _ := w.registrationToken(id)
	server := attack.NewServer(w.server.Address)
	w.Cleanup(server.Close)
	var node *attack.Node
	var codes attack.Codes
	plane.Until(w, 2*time.Minute, func() string {
		if nodes := server.Invent(w.Context(), token, 1, &codes); len(nodes) > 0 {
			node = nodes[0]
			return ""
		}
		return "the host gets no plan token: " + codes.String()
	})
	return node
}

// planPath is the path of the list that contains only the plan Secret of a node.
func planPath(node *attack.Node) string {
	return "/api/v1/namespaces/" + node.Namespace + "/secrets?fieldSelector=" +
		url.QueryEscape("metadata.name="+node.Secret)
}

// revokePlan deletes the plan token of a machine during a watch of its plan Secret.
func (w *world) revokePlan(namespace string) {
	w.Helper()
	node := w.registerHost(namespace)
	kubeconfig := filepath.Join(w.dir, "node")
	w.must(clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "node",
		Contexts:       map[string]*clientcmdapi.Context{"node": {Cluster: "node", AuthInfo: "node"}},
		Clusters: map[string]*clientcmdapi.Cluster{"node": {Server: w.server.ServerURL,
			CertificateAuthorityData: []byte(w.authority())}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"node": {Token: node.Token}},
	}, kubeconfig))
	request := w.open(kubeconfig, nil, "get", "--raw", planPath(node)+"&watch=true")
	request.staysOpen(recheck)
	w.must(w.upstream.CoreV1().Secrets(node.Namespace).Delete(w.Context(), w.tokenSecret(node), metav1.DeleteOptions{}))
	request.ends(planRecheck + slack)
	status, body := w.fetch(w.server.ServerURL+planPath(node), http.Header{"Authorization": {"Bearer " + node.Token}})
	if status != http.StatusUnauthorized {
		w.Errorf("a request with the deleted token gets %d: %s", status, body)
	}
}

// tokenSecret returns the name of the Secret with the plan token of a node.
func (w *world) tokenSecret(node *attack.Node) string {
	w.Helper()
	secrets, err := w.upstream.CoreV1().Secrets(node.Namespace).List(w.Context(), metav1.ListOptions{
		FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	w.must(err)
	for i := range secrets.Items {
		if string(secrets.Items[i].Data[corev1.ServiceAccountTokenKey]) == node.Token {
			return secrets.Items[i].Name
		}
	}
	w.Fatal("no Secret has the plan token")
	return ""
}
