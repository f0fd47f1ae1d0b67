package reach

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
)

func TestMain(m *testing.M) {
	drover, err := plane.Binary("drover")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(plane.Main(m, plane.Options{
		Components: []string{managementplane.ControllerManager, managementplane.Scheduler,
			managementplane.ProcessKubelet},
		Controllers: []string{
			"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
			"serviceaccount-token-controller",
			"root-ca-certificate-publisher-controller", "deployment-controller", "replicaset-controller",
			"daemonset-controller", "node-lifecycle-controller",
		},
		Images: []managementplane.Image{
			{Match: "drover.test/pause*", Program: "/usr/bin/sleep", Args: []string{"infinity"}},
			{Match: "*drover*", Program: drover},
		},
		WithoutCRDs: true,
	}))
}

var (
	clustersResource = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1",
		Resource: "clusters"}
	managementResource = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "clusters"}
	tokensResource     = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3",
		Resource: "clusterregistrationtokens"}
)

// world is a management cluster with Drover, and another cluster that only its own machine can reach.
type world struct {
	*testing.T
	server     *replica.Replica
	upstream   kubernetes.Interface
	objects    dynamic.Interface
	downstream *managementplane.Plane
	dir        string
}

func newWorld(t *testing.T, apiServerArgs ...string) *world {
	t.Helper()
	server := newServer(t, "drover")
	server.ServerURL = "https://" + server.Address
	server.Start()
	server.AwaitReady()
	return newWorldOf(t, server, apiServerArgs...)
}

// newWorldOf returns a world whose Drover already runs.
func newWorldOf(t *testing.T, server *replica.Replica, apiServerArgs ...string) *world {
	t.Helper()
	config := plane.Config(t, "contract-tests")
	config.QPS = -1
	w := &world{T: t, server: server, dir: t.TempDir(), downstream: plane.Another(t, apiServerArgs...)}
	var err error
	w.upstream, err = kubernetes.NewForConfig(config)
	w.must(err)
	w.objects, err = dynamic.NewForConfig(config)
	w.must(err)
	return w
}

// of returns the world for a subtest.
func (w *world) of(t *testing.T) *world {
	within := *w
	within.T = t
	return &within
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// kubectl runs kubectl with a kubeconfig and returns its output.
func (w *world) kubectl(kubeconfig, stdin string, args ...string) (string, error) {
	w.Helper()
	program, err := plane.Binary("kubectl")
	w.must(err)
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	command.Stdin = strings.NewReader(stdin)
	// Kubeconfigs find drover token there.
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (w *world) kubectlOK(kubeconfig, stdin string, args ...string) string {
	w.Helper()
	out, err := w.kubectl(kubeconfig, stdin, args...)
	if err != nil {
		w.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// cluster creates a Cluster to import and returns the name of its management Cluster.
func (w *world) cluster(namespace, name string) string {
	w.Helper()
	return w.make(namespace, name, map[string]any{})
}

// make creates a Cluster and returns the name of its management Cluster.
func (w *world) make(namespace, name string, spec map[string]any) string {
	w.Helper()
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": map[string]any{"namespace": namespace,
			"name": name}, "spec": spec,
	}}
	_, err := w.objects.Resource(clustersResource).Namespace(namespace).Create(w.Context(), cluster,
		metav1.CreateOptions{})
	w.must(err)
	id := ""
	plane.Until(w, time.Minute, func() string {
		found, err := w.objects.Resource(clustersResource).Namespace(namespace).Get(w.Context(), name,
			metav1.GetOptions{})
		w.must(err)
		id, _, _ = unstructured.NestedString(found.Object, "status", "clusterName")
		if id == "" {
			return fmt.Sprintf("cluster %s has no management cluster: %v", name, found.Object["status"])
		}
		return ""
	})
	return id
}

// command returns the address in the import command of a cluster, with its token.
func (w *world) command(id string) string {
	w.Helper()
	address := ""
	plane.Until(w, time.Minute, func() string {
		token, err := w.objects.Resource(tokensResource).Namespace(id).Get(w.Context(), "default-token",
			metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		command, _, _ := unstructured.NestedString(token.Object, "status", "command")
		name, _, _ := unstructured.NestedString(token.Object, "status", "tokenSecretName")
		if command == "" || name == "" {
			return fmt.Sprintf("the command is missing: %v", token.Object["status"])
		}
		secret, err := w.upstream.CoreV1().Secrets(id).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		complete := string(secret.Data["command"])
		if complete != strings.ReplaceAll(command, "{token}", string(secret.Data["token"])) {
			return "the command in the Secret is not the one of the status with the token"
		}
		_, address, _ = strings.Cut(complete, "kubectl apply -f ")
		return ""
	})
	return address
}

// fetch requests an address and trusts only the server's authority.
func (w *world) fetch(address string, header http.Header) (int, string) {
	w.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.authority()))
	client := &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, address, http.NoBody)
	w.must(err)
	request.Header = header
	response, err := client.Do(request)
	w.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.must(err)
	return response.StatusCode, string(body)
}

func (w *world) authority() string {
	w.Helper()
	client := &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(w.server.ServerURL + "/cacerts")
	w.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.must(err)
	return string(body)
}

func (w *world) awaitCondition(id, kind, status string, within time.Duration) {
	w.Helper()
	plane.Until(w, within, func() string {
		is, err := w.condition(w.Context(), id, kind)
		w.must(err)
		if is == status {
			return ""
		}
		return fmt.Sprintf("%s is %q, want %s\nagent: %s", kind, is, status, w.agentLog())
	})
}

// condition returns the status of a condition, or "" if there is none.
func (w *world) condition(ctx context.Context, id, kind string) (string, error) {
	found, err := w.objects.Resource(managementResource).Get(ctx, id, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == kind {
			status, _ := condition["status"].(string)
			return status, nil
		}
	}
	return "", nil
}

func (w *world) agentLog() string {
	pods, _ := w.kubectl(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "get", "pods", "-o", "yaml")
	log, _ := w.kubectl(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "logs", "-l", "app=cattle-cluster-agent",
		"--tail=30")
	return pods + "\n" + log
}

// TestImport imports a cluster with its command, uses it with kubectl, and removes it.
func TestImport(t *testing.T) {
	w := newWorld(t)
	namespace := plane.Namespace(t)
	id, other := w.cluster(namespace, "imported"), w.cluster(namespace, "other")
	address := w.command(id)
	status, manifest := w.fetch(address, nil)
	if status != http.StatusOK {
		t.Fatalf("the request for the manifest gets %d: %s", status, manifest)
	}
	w.kubectlOK(w.downstream.Kubeconfig(), manifest, "apply", "-f", "-")
	began := time.Now()
	w.awaitCondition(id, "Connected", "True", time.Minute)
	t.Logf("connected %s after the manifest was applied", time.Since(began).Round(time.Millisecond))
	w.awaitCondition(id, "Ready", "True", time.Minute)
	kubeconfig := w.kubeconfig(namespace, "imported")

	t.Run("Drover's own kubeconfig", func(t *testing.T) { w.of(t).useAsAdministrator(kubeconfig) })
	t.Run("users", func(t *testing.T) { w.of(t).users(namespace, id, other, kubeconfig) })
	t.Run("the user of requests", func(t *testing.T) { w.of(t).identities(namespace, id, kubeconfig) })
	t.Run("the agent disconnects and connects again", func(t *testing.T) {
		w := w.of(t)
		w.kubectlOK(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "scale", "deployment", "cattle-cluster-agent",
			"--replicas=0")
		w.awaitCondition(id, "Connected", "False", 30*time.Second)
		secret, err := w.secret(namespace, "imported-kubeconfig")
		w.must(err)
		began := time.Now()
		status, body := w.fetch(w.server.ServerURL+"/k8s/clusters/"+id+"/version",
			http.Header{"Authorization": {"Bearer " + string(secret.Data["token"])}})
		if took := time.Since(began); status != http.StatusServiceUnavailable || took > 2*time.Second {
			w.Errorf("without an agent, the answer is %d after %s: %s", status, took, body)
		}
		w.kubectlOK(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "scale", "deployment", "cattle-cluster-agent",
			"--replicas=1")
		w.awaitCondition(id, "Connected", "True", time.Minute)
		w.kubectlOK(kubeconfig, "", "get", "--raw", "/version")
	})
	t.Run("the server is upgraded", func(t *testing.T) {
		w := w.of(t)
		w.server.Stop()
		w.server.More = append(w.server.More, "--cluster-agent-image=drover.test/drover:next")
		w.server.Start()
		w.server.AwaitReady()
		plane.Until(w, time.Minute, func() string {
			agent, err := w.kubectl(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "get", "deployment",
				"cattle-cluster-agent", "-o",
				// The number of replicas is not compared: here they share the ports of one host.
				"jsonpath={.spec.template.spec.containers[0].image}")
			if err != nil || agent != "drover.test/drover:next" {
				return fmt.Sprintf("the agent has image %q: %v", agent, err)
			}
			return ""
		})
		w.kubectlOK(kubeconfig, "", "get", "--raw", "/version")
	})
	t.Run("removed", func(t *testing.T) {
		w := w.of(t)
		w.must(w.objects.Resource(clustersResource).Namespace(namespace).Delete(w.Context(), "imported",
			metav1.DeleteOptions{}))
		plane.Until(w, time.Minute, func() string {
			if _, err := w.objects.Resource(clustersResource).Namespace(namespace).Get(w.Context(), "imported",
				metav1.GetOptions{}); err == nil {
				return "the Cluster still exists"
			}
			return ""
		})
		plane.Until(w, time.Minute, func() string {
			if out, err := w.kubectl(kubeconfig, "", "get", "--raw", "/version"); err == nil {
				return "its kubeconfig is still valid: " + out
			}
			return ""
		})
		plane.Until(w, time.Minute, w.agentLeft)
	})
}

// useAsAdministrator does what users and programs do with a cluster.
func (w *world) useAsAdministrator(kubeconfig string) {
	w.Helper()
	if who := w.kubectlOK(kubeconfig, "", "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username} {.status.userInfo.groups}"); !strings.HasPrefix(who,
		"system:provisioning:") {
		w.Errorf("Drover's user name in the cluster is %q", who)
	}
	w.kubectlOK(kubeconfig, "", "create", "namespace", "work")
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"work"},"spec":{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"c",` +
		`"image":"drover.test/pause:1","command":["sh","-c","i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done"]}]}}`
	w.kubectlOK(kubeconfig, pod, "apply", "-f", "-")
	w.kubectlOK(kubeconfig, "", "-n", "work", "wait", "--for=condition=Ready", "pod/p", "--timeout=50s")
	for _, websockets := range []string{"true", "false"} {
		w.Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
		if out := w.kubectlOK(kubeconfig, "to be echoed", "-n", "work", "exec", "-i", "p", "--",
			"cat"); out != "to be echoed" {
			w.Errorf("exec (WebSocket %s) answers %q", websockets, out)
		}
	}
	if lines := w.follow(kubeconfig, 3, "-n", "work", "logs", "-f", "p"); !strings.Contains(lines, "line 1") {
		w.Errorf("the log is %q", lines)
	}
	if lines := w.follow(kubeconfig, 2, "-n", "work", "get", "configmaps", "--watch", "-o",
		"name"); !strings.Contains(lines, "configmap/made-while-watching") {
		w.Errorf("the watch shows %q", lines)
	}
	w.kubectlOK(kubeconfig, "", "delete", "namespace", "work", "--wait=false")
}

// follow runs kubectl until it has printed that many lines, and returns them. Meanwhile it creates the object that a
// watch waits for.
func (w *world) follow(kubeconfig string, lines int, args ...string) string {
	w.Helper()
	program, err := plane.Binary("kubectl")
	w.must(err)
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	out, err := command.StdoutPipe()
	w.must(err)
	w.must(command.Start())
	var read bytes.Buffer
	buffer := make([]byte, 4096)
	made := false
	for strings.Count(read.String(), "\n") < lines {
		n, err := out.Read(buffer)
		read.Write(buffer[:n])
		if err != nil {
			break
		}
		if !made && args[2] == "get" {
			made = true
			w.kubectlOK(kubeconfig, "", "-n", "work", "create", "configmap", "made-while-watching")
		}
	}
	cancel()
	_ = command.Wait()
	return read.String()
}

// users checks access by rights on the Cluster in the management cluster, and by rights in the cluster.
func (w *world) users(namespace, id, other, administrator string) {
	w.Helper()
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "role", "user-of-imported", "--verb=get",
		"--resource=clusters.provisioning.cattle.io", "--resource-name=imported")
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "rolebinding", "user-of-imported",
		"--role=user-of-imported", "--serviceaccount="+namespace+":allowed")
	allowed := w.writtenKubeconfig(namespace, "allowed", "imported")
	plane.Until(w, 30*time.Second, func() string {
		out, err := w.kubectl(allowed, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if err != nil || out != "system:drover:serviceaccount:"+namespace+":allowed" {
			return fmt.Sprintf("the user name of a user that may get the Cluster is %q: %v", out, err)
		}
		return ""
	})
	if out, err := w.kubectl(allowed, "", "get", "nodes"); err == nil || !strings.Contains(out, "forbidden") {
		w.Errorf("a user without permissions in the cluster gets %q", out)
	}
	w.kubectlOK(administrator, "", "create", "clusterrole", "viewer", "--verb=list", "--resource=configmaps")
	w.kubectlOK(administrator, "", "create", "clusterrolebinding", "viewer", "--clusterrole=viewer",
		"--user=system:drover:serviceaccount:"+namespace+":allowed")
	plane.Until(w, 30*time.Second, func() string {
		if out, err := w.kubectl(allowed, "", "get", "configmaps", "-A"); err != nil {
			return "a user with role view in the cluster gets " + out
		}
		return ""
	})
	if out, err := w.kubectl(allowed, "", "get", "namespaces", "--as=somebody"); err == nil ||
		!strings.Contains(out, "orbidden") {
		w.Errorf("a user without permission to impersonate gets %q", out)
	}
	refused := map[string]string{}
	for _, asked := range []string{id, other, "c-m-absent00"} {
		path := w.userKubeconfig(namespace, "stranger", asked)
		out, err := w.kubectl(path, "", "get", "--raw", "/version")
		if err == nil {
			w.Errorf("a stranger gets %q from %s", out, asked)
		}
		refused[strings.ReplaceAll(out, asked, "ID")] = asked
	}
	if len(refused) != 1 {
		w.Errorf("a stranger can distinguish clusters: %v", refused)
	}
	// The token of one cluster does not work for the other.
	content, err := os.ReadFile(administrator)
	w.must(err)
	elsewhere := filepath.Join(w.dir, "elsewhere")
	w.must(os.WriteFile(elsewhere, bytes.ReplaceAll(content, []byte("/k8s/clusters/"+id),
		[]byte("/k8s/clusters/"+other)), 0o600))
	if out, err := w.kubectl(elsewhere, "", "get", "--raw", "/version"); err == nil {
		w.Errorf("the token of %s is accepted for %s: %s", id, other, out)
	}
}
