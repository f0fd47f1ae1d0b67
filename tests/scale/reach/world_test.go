package reach

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

// Namespaces of the cluster.
const (
	small = "small"
	large = "large"
	quiet = "quiet"
)

// Names of the user and of its rights.
const (
	user    = "user"
	reader  = "reader"
	tokenOf = "crt-token-default-token"
)

var clusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}

// world is Drover's server, and a cluster that is reached through its agent. All of them are separate processes.
type world struct {
	*testing.T
	server    *replica.Replica
	authority []byte
	dir       string
	namespace string

	upstream, downstream kubernetes.Interface
	objects              dynamic.Interface
	other                *managementplane.Plane
	agent                *exec.Cmd

	// direct and tunnel are the user's two connections to the cluster. The user has a token and the same rights on
	// both.
	direct, tunnel *rest.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), namespace: plane.Namespace(t), other: plane.Another(t)}
	w.server = replica.New(t, "drover", stage.AccountKubeconfig(t), "--shutdown-delay=0s", "--log-level=warning")
	w.server.ServerURL = "https://" + w.server.Address
	w.server.Start()
	w.server.AwaitReady()
	config := plane.Config(t, "bench")
	w.upstream, w.downstream = w.client(config), w.client(unlimited(w.other.RESTConfig()))
	var err error
	w.objects, err = dynamic.NewForConfig(config)
	w.must(err)
	w.authority = w.fetch("/cacerts")
	id := w.join("reached")
	w.users(id)
	return w
}

func unlimited(config *rest.Config) *rest.Config {
	config.QPS = -1
	return config
}

func (w *world) client(config *rest.Config) kubernetes.Interface {
	w.Helper()
	client, err := kubernetes.NewForConfig(config)
	w.must(err)
	return client
}

// fetch requests a public path from the server.
func (w *world) fetch(path string) []byte {
	w.Helper()
	body, err := w.ask(path)
	w.must(err)
	return body
}

func (w *world) ask(path string) ([]byte, error) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get(w.server.ServerURL + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s gets the answer %s: %s", path, response.Status, body)
	}
	return body, err
}

// create creates a Cluster to import.
func (w *world) create(name string) error {
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
		"metadata": map[string]any{"namespace": w.namespace, "name": name}, "spec": map[string]any{},
	}}
	_, err := w.objects.Resource(clusters).Namespace(w.namespace).Create(w.Context(), cluster, metav1.CreateOptions{})
	return err
}

// tokens returns the tokens of all agents by the ID of their cluster.
func (w *world) tokens() (map[string]string, error) {
	all, err := w.upstream.CoreV1().Secrets(metav1.NamespaceAll).List(w.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + tokenOf})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, secret := range all.Items {
		found[secret.Namespace] = string(secret.Data["token"])
	}
	return found, nil
}

// join creates a Cluster, installs its agent's manifest in the other plane, runs the agent, and returns the ID of the
// cluster.
func (w *world) join(name string) string {
	w.Helper()
	w.must(w.create(name))
	id, token := "", ""
	w.await(time.Minute, func() (string, error) {
		found, err := w.tokens()
		if err != nil {
			return "", err
		}
		for id, token = range found {
			if token != "" {
				return "", nil
			}
		}
		return "the token does not exist yet", nil
	})
	var manifest []byte
	w.await(time.Minute, func() (missing string, err error) { // the server sees the token with a delay
		manifest, err = w.ask("/v3/import/" + token + "_" + id + ".yaml")
		return "", err
	})
	kubectl, err := plane.Binary("kubectl")
	w.must(err)
	command := exec.CommandContext(w.Context(), kubectl, "--kubeconfig", w.other.Kubeconfig(), "apply", "-f", "-")
	command.Stdin = bytes.NewReader(manifest)
	if out, err := command.CombinedOutput(); err != nil {
		w.Fatalf("install the agent: %v: %s", err, out)
	}
	account := w.token(w.downstream, clustermanifest.Namespace, clustermanifest.ServiceAccount)
	drover, err := plane.Binary("drover")
	w.must(err)
	config := w.other.RESTConfig()
	w.agent = exec.CommandContext(context.WithoutCancel(w.Context()), drover, "cluster-agent", "--server-url="+
		w.server.ServerURL,
		"--token-file="+w.file("registration", []byte(token)), "--ca-checksum="+naming.CAChecksum(string(w.authority)),
		"--api-server="+config.Host,
		"--api-server-ca-file="+w.file("api-server-ca", config.CAData), "--api-server-token-file="+
			w.file("account", []byte(account)),
		"--health-address=", "--log-level=warning")
	w.agent.Stderr = os.Stderr
	w.agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.must(w.agent.Start())
	w.Cleanup(func() { _ = w.agent.Process.Kill(); _ = w.agent.Wait() })
	w.await(time.Minute, func() (string, error) {
		if n := w.connected(); n != 1 {
			return fmt.Sprintf("%d agents are connected", n), nil
		}
		return "", nil
	})
	return id
}

// file writes a file and returns its path.
func (w *world) file(name string, content []byte) string {
	w.Helper()
	path := filepath.Join(w.dir, name)
	w.must(os.WriteFile(path, content, 0o600))
	return path
}

func (w *world) token(client kubernetes.Interface, namespace, account string) string {
	w.Helper()
	hours := int64(3 * 60 * 60)
	made, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(w.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}},
		metav1.CreateOptions{})
	w.must(err)
	return made.Status.Token
}

// users lets one user get the Cluster and read in it. Through the tunnel, the user is an account of the management
// cluster. At the API server, the user is an account of the cluster itself.
func (w *world) users(id string) {
	w.Helper()
	get := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{clusters.Group},
		Resources: []string{clusters.Resource}}
	w.account(w.upstream, w.namespace, get, w.subject())
	for _, namespace := range []string{small, large, quiet} {
		_, err := w.downstream.CoreV1().Namespaces().Create(w.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		w.must(err)
	}
	_, err := w.downstream.CoreV1().ConfigMaps(small).Create(w.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: small}, Data: map[string]string{"key": "value"}},
		metav1.CreateOptions{})
	w.must(err)
	read := rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""},
		Resources: []string{"configmaps"}}
	there := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:drover:serviceaccount:" +
		w.namespace + ":" + user}
	w.account(w.downstream, small, read, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: small, Name: user},
		there)

	direct := w.other.RESTConfig()
	w.direct = unlimited(&rest.Config{Host: direct.Host, TLSClientConfig: rest.TLSClientConfig{CAData: direct.CAData},
		BearerToken: w.token(w.downstream, small, user)})
	w.tunnel = unlimited(&rest.Config{
		Host:            w.server.ServerURL + strings.TrimSuffix(clusterproxy.DefaultPrefixes()[0], "/") + "/" + id,
		TLSClientConfig: rest.TLSClientConfig{CAData: w.authority},
		BearerToken:     w.token(w.upstream, w.namespace, user),
	})
	for name, config := range map[string]*rest.Config{"the API server": w.direct, "the tunnel": w.tunnel} {
		w.await(30*time.Second, func() (string, error) { // roles take effect with a delay
			if _, err := w.client(config).CoreV1().ConfigMaps(small).List(w.Context(),
				metav1.ListOptions{}); err != nil {
				return "", fmt.Errorf("request from %s: %w", name, err)
			}
			return "", nil
		})
	}
}

func (w *world) subject() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: user}
}

// account creates an account, and a role that is bound to subjects.
func (w *world) account(client kubernetes.Interface, namespace string, rule rbacv1.PolicyRule,
	subjects ...rbacv1.Subject) {
	w.Helper()
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(w.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: user}}, metav1.CreateOptions{})
	w.must(err)
	_, err = client.RbacV1().ClusterRoles().Create(w.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reader}, Rules: []rbacv1.PolicyRule{rule}},
		metav1.CreateOptions{})
	w.must(err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
	}, metav1.CreateOptions{})
	w.must(err)
}
