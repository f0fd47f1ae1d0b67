package reach

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/tests/contract/plane"
)

// webhook is the file for an API server in the plans of servers.
const webhook = `apiVersion: v1
kind: Config
clusters: [{name: Default, cluster: {insecure-skip-tls-verify: true, server: "http://localhost:6440/v1/authenticate"}}]
users: [{name: Default, user: {insecure-skip-tls-verify: true}}]
contexts: [{name: webhook, context: {user: Default, cluster: Default}}]
current-context: webhook
`

// provisioned creates a Cluster without machines and with an authorized endpoint. It returns the name of its management
// Cluster.
func (w *world) provisioned(namespace, name, fqdn, caCerts string) string {
	w.Helper()
	return w.make(namespace, name, map[string]any{
		"kubernetesVersion": "v1.36.2+k3s1", "rkeConfig": map[string]any{},
		"localClusterAuthEndpoint": map[string]any{"enabled": true, "fqdn": fqdn, "caCerts": caCerts},
	})
}

// endpointToken gets a token for a cluster with drover token.
func (w *world) endpointToken(management, cluster string) (string, error) {
	w.Helper()
	program, err := plane.Binary("drover")
	w.must(err)
	out, err := exec.CommandContext(w.Context(), program, "token", "--kubeconfig", management, "--cluster",
		cluster).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("drover token: %w\n%s", err, out)
	}
	var credential clientauthv1.ExecCredential
	w.must(json.Unmarshal(out, &credential))
	return credential.Status.Token, nil
}

// whoami asks an API server for the user of a token.
func (w *world) whoami(config *rest.Config, token string) (authenticationv1.UserInfo, error) {
	w.Helper()
	anonymous := rest.AnonymousClientConfig(config)
	anonymous.BearerToken = token
	client, err := kubernetes.NewForConfig(anonymous)
	w.must(err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(w.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// TestAuthorizedEndpoint uses a cluster without Drover in between. Drover installs the webhook that the cluster's API
// server asks about tokens, and issues tokens for that cluster. Tokens of another cluster do not work there, and none
// works in the management cluster.
func TestAuthorizedEndpoint(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "webhook.yaml")
	if err := os.WriteFile(file, []byte(webhook), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--authentication-token-webhook-config-file="+file)
	namespace, downstream := plane.Namespace(t), w.downstream.RESTConfig()
	w.kubectlOK(w.downstream.Kubeconfig(), "", "label", "node", "local", "node-role.kubernetes.io/control-plane=true")
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "role", "user", "--verb=get",
		"--resource=clusters.provisioning.cattle.io")
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "rolebinding", "user", "--role=user",
		"--serviceaccount="+namespace+":jane")
	authority := string(downstream.CAData)
	if authority == "" {
		content, err := os.ReadFile(downstream.CAFile)
		w.must(err)
		authority = string(content)
	}
	id := w.provisioned(namespace, "demo", strings.TrimPrefix(downstream.Host, "https://"), authority)
	w.provisioned(namespace, "other", "other.example.com", "")

	var manifest []byte
	plane.Until(w, time.Minute, func() string {
		secret, err := w.secret(namespace, "demo-cluster-agent")
		if err != nil {
			return err.Error()
		}
		manifest = secret.Data["manifest"]
		return ""
	})
	w.kubectlOK(w.downstream.Kubeconfig(), string(manifest), "apply", "-f", "-")
	w.awaitCondition(id, "Connected", "True", time.Minute)

	kubeconfig := w.writtenKubeconfig(namespace, "jane", "demo")
	management := filepath.Join(w.dir, "jane-management")
	user, groups := "system:drover:serviceaccount:"+namespace+":jane",
		[]string{"system:drover:serviceaccounts", "system:drover:serviceaccounts:" + namespace, "system:authenticated"}
	began := time.Now()
	plane.Until(w, 2*time.Minute, func() string {
		out, err := w.kubectl(kubeconfig, "", "--context", "demo-fqdn", "auth", "whoami", "-o",
			"jsonpath={.status.userInfo.username}")
		if err != nil || out != user {
			pods, _ := w.kubectl(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "get", "daemonsets,pods", "-o",
				"wide")
			log, _ := w.kubectl(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "logs", "-l",
				"app=drover-cluster-auth", "--tail=30")
			return fmt.Sprintf("jane's user name at the endpoint is %q: %v\n%s\n%s", out, err, pods, log)
		}
		return ""
	})
	t.Logf("the endpoint answers %s after the agent connected", time.Since(began).Round(time.Millisecond))

	token, err := w.endpointToken(management, namespace+"/demo")
	w.must(err)
	is, err := w.whoami(downstream, token)
	w.must(err)
	if diff := cmp.Diff(groups, is.Groups); diff != "" || is.Username != user ||
		len(is.Extra["authentication.kubernetes.io/credential-id"]) != 1 {
		t.Errorf("%+v (-want +got):\n%s", is, diff)
	}
	elsewhere, err := w.endpointToken(management, namespace+"/other")
	w.must(err)
	for name, refused := range map[string]struct {
		config *rest.Config
		token  string
	}{
		"a token of another cluster":              {downstream, elsewhere},
		"a changed token":                         {downstream, token[:len(token)-8] + "AAAAAAAA"},
		"the token at the management cluster":     {plane.Config(t, "nobody"), token},
		"jane's credential for the other cluster": {downstream, bearerIn(t, management)},
	} {
		if is, err := w.whoami(refused.config, refused.token); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: user %q, error %v", name, is.Username, err)
		}
	}
	if status, body := w.fetch(w.server.ServerURL+"/k8s/clusters/"+id+"/version",
		http.Header{"Authorization": {"Bearer " + token}}); status != http.StatusUnauthorized {
		t.Errorf("a request with the token to Drover gets %d: %s", status, body)
	}
	w.account(namespace, "stranger")
	if _, err := w.endpointToken(w.managementOf(namespace, "stranger"), namespace+"/demo"); err == nil {
		t.Error("a stranger gets a token")
	}
	plane.Until(w, time.Minute, func() string {
		ready := w.kubectlOK(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "get", "daemonset",
			"drover-cluster-auth", "-o", "jsonpath={.status.numberReady}")
		if ready != "1" {
			return "ready pods of the token authenticator: " + ready
		}
		return ""
	})
	w.refusedOnce(kubeconfig)
	w.singleServer(namespace, user, downstream.Host)
	w.switchedOff(namespace, management)
}

// machine is a server of demo that is paused for all controllers.
const machine = `{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "demo-server",
	"labels": {"cluster.x-k8s.io/cluster-name": "demo", "rke.cattle.io/control-plane-role": "true"}, "annotations": {"cluster.x-k8s.io/paused": "true"}},
	"spec": {"clusterName": "demo", "bootstrap": {"dataSecretName": "none"}, "infrastructureRef": {"apiGroup": "rke-machine.cattle.io", "kind": "SimMachine", "name": "none"}}}`

// singleServer checks the context for one server of the endpoint, with the cluster's own authority. In this test no API
// server has the usual port, so kubectl gets the address.
func (w *world) singleServer(namespace, user, address string) {
	w.Helper()
	w.kubectlOK(plane.Kubeconfig(w), machine, "-n", namespace, "apply", "-f", "-")
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "patch", "machines.cluster.x-k8s.io", "demo-server",
		"--subresource=status", "--type=merge",
		"-p", `{"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]}}`)
	var path, server string
	plane.Until(w, 30*time.Second, func() string {
		path = w.writtenKubeconfig(namespace, "jane", "demo")
		written, err := clientcmd.LoadFromFile(path)
		w.must(err)
		if found := written.Clusters["demo-demo-server"]; found != nil {
			server = found.Server
			return ""
		}
		return "the kubeconfig has no context for the server"
	})
	if server != "https://192.0.2.7:6443" {
		w.Errorf("the server is at %s", server)
	}
	if is := w.kubectlOK(path, "", "--context", "demo-demo-server", "--server", address, "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username}"); is != user {
		w.Errorf("through that context, jane's user name is %q", is)
	}
}

// refusedOnce checks that kubectl gets another token when the cached one ends early.
func (w *world) refusedOnce(kubeconfig string) {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "drover", "endpoint-tokens", "*.json"))
	w.must(err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		w.must(err)
		kept := map[string]any{}
		w.must(json.Unmarshal(content, &kept))
		token, _ := kept["token"].(string)
		kept["token"] = token[:len(token)-8] + "AAAAAAAA"
		content, err = json.Marshal(kept)
		w.must(err)
		w.must(os.WriteFile(file, content, 0o600))
	}
	if out, err := w.kubectl(kubeconfig, "", "--context", "demo-fqdn", "auth", "whoami"); err == nil ||
		len(files) == 0 {
		w.Errorf("with %d invalid tokens, kubectl gets %s", len(files), out)
	}
	w.kubectlOK(kubeconfig, "", "--context", "demo-fqdn", "auth", "whoami")
}

// bearerIn returns the token in a kubeconfig.
func bearerIn(t *testing.T, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token
}

// switchedOff checks that nothing is left of an endpoint that is switched off.
func (w *world) switchedOff(namespace, management string) {
	w.Helper()
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "patch", "clusters.provisioning.cattle.io", "demo",
		"--type=merge",
		"-p", `{"spec":{"localClusterAuthEndpoint":{"enabled":false}}}`)
	plane.Until(w, time.Minute, func() string {
		left, err := w.kubectl(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "get",
			"daemonsets/drover-cluster-auth", "configmaps/drover-cluster-auth", "--ignore-not-found", "-o", "name")
		if err != nil || left != "" {
			return fmt.Sprintf("of the endpoint, %s remains: %v", left, err)
		}
		if _, err := w.secret(namespace, "demo-endpoint-keys"); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("its keys still exist: %v", err)
		}
		return ""
	})
	w.Setenv("XDG_CACHE_HOME", w.TempDir())
	if _, err := w.endpointToken(management, namespace+"/demo"); err == nil ||
		!strings.Contains(err.Error(), "spec.localClusterAuthEndpoint.enabled") {
		w.Errorf("a disabled endpoint: %v", err)
	}
}
