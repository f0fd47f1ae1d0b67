package e2e

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/lab"
)

var registrationTokensResource = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3",
	Resource: "clusterregistrationtokens"}

// TestImport imports a manually installed cluster with the command that Drover shows, uses it and releases it.
// Afterwards the cluster contains no object of Drover.
func TestImport(t *testing.T) {
	w := newWorld(t, "import", "v1.36.3+rke2r1")
	server := w.byHand("byhand", distro.RKE2, "v1.36.3+rke2r1")
	there := w.administrator()
	there.Host = "https://" + server.Address.String() + ":6443"
	w.eventually("a Ready node", func() (bool, error) {
		out, err := server.try(kubectlOf(distro.RKE2) + "get nodes --no-headers")
		return err == nil && strings.Contains(out, " Ready "), err
	})
	there.QPS, there.Burst = 100, 200
	if found := w.drovers(there); len(found) > 0 {
		t.Fatalf("objects exist before the import: %v", found)
	}

	id := w.identified("imported", "{}")
	command := w.commandOf(id, "command")
	server.trusts("https://" + lab.Gateway.String() + ":8443")
	began := time.Now()
	t.Log(server.run("export KUBECONFIG=/etc/rancher/rke2/rke2.yaml PATH=$PATH:" +
		distro.NewLayout(distro.RKE2, "").Data + "/bin; " + command))
	w.awaitLink(id, "True", time.Minute)
	t.Logf("ready %s after the command", time.Since(began).Round(time.Millisecond))
	w.within(time.Minute, "the kubeconfig leads through the agent", func() error {
		return w.leadsTo("imported", "/k8s/clusters/"+id)
	})
	kubectl := w.kubectlOf("imported")
	if nodes := kubectl.ok("", "get", "nodes", "--no-headers"); strings.Count(nodes, " Ready ") != 1 ||
		!strings.HasPrefix(nodes, server.Name) {
		t.Errorf("nodes: %s", nodes)
	}
	kubectl.use()

	w.deleteCluster("imported")
	// Users may have objects in the namespace, so the namespace and Kubernetes' own objects in it stay.
	stays := []string{"configmaps. cattle-system/kube-root-ca.crt", "namespaces. /cattle-system",
		"serviceaccounts. cattle-system/default"}
	awaitSame(t, "Drover's objects in the imported cluster", stays, func() []string { return w.drovers(there) })
	w.within(time.Minute, "the deletion of the namespace with the cluster's tokens", func() error {
		found, err := w.objects.Resource(namespacesResource).Get(t.Context(), id, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it still exists: %v, %w", found, err)
	})
	if out, err := kubectl.command(t.Context(), "get", "nodes").CombinedOutput(); err == nil {
		t.Errorf("the kubeconfig is still valid: %s", out)
	}
}

// drovers lists the objects of a cluster that belong to Drover by name or namespace.
func (w *world) drovers(config *rest.Config) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.inventoryOf(config), func(name string) bool {
		return !strings.Contains(name, "cattle") && !strings.Contains(name, "drover")
	})
}

// byHand installs a server on a machine that Drover does not know.
func (w *world) byHand(name string, runtime distro.Runtime, version string) machine {
	w.t.Helper()
	signer, authorized := keyPair(w.t)
	made, err := w.Lab.Create(w.t.Context(), name, authorized, "")
	must(w.t, err)
	m := machine{Machine: made, t: w.t, lab: w.Lab, signer: signer}
	// The stand-in's nodes have no registry, so the program of the agent's image comes from the node.
	program, err := os.ReadFile(filepath.Join(binFolder(w.t), "drover"))
	must(w.t, err)
	m.write("/usr/local/bin/rancher-system-agent", program, 0o755)
	m.configure(runtime, `{"token": "t1"}`)
	m.install(binFolder(w.t), runtime, version, "server")
	m.eventually(kubectlOf(runtime)+"get --raw /readyz", "ok")
	return m
}

// trusts adds the authority of a server to the machine's trusted authorities.
func (m machine) trusts(server string) {
	m.t.Helper()
	m.run("curl -fsS --insecure -o /usr/local/share/ca-certificates/drover.crt " + server +
		"/cacerts && update-ca-certificates")
}

// commandOf returns a command for a cluster from a status field of its ClusterRegistrationToken, with the token.
func (w *world) commandOf(id, field string) string {
	w.t.Helper()
	management, err := kubernetes.NewForConfig(w.Config)
	must(w.t, err)
	command := ""
	w.within(time.Minute, "a command", func() error {
		registration, err := w.objects.Resource(registrationTokensResource).Namespace(id).Get(w.t.Context(),
			"default-token", metav1.GetOptions{})
		if err != nil {
			return err
		}
		shown, _, _ := unstructured.NestedString(registration.Object, "status", field)
		name, _, _ := unstructured.NestedString(registration.Object, "status", "tokenSecretName")
		if shown == "" || name == "" {
			return fmt.Errorf("it does not exist: %v", registration.Object["status"])
		}
		secret, err := management.CoreV1().Secrets(id).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		command = strings.ReplaceAll(shown, "{token}", string(secret.Data["token"]))
		return nil
	})
	return command
}

// leadsTo checks that the kubeconfig that Drover writes leads to a path.
func (w *world) leadsTo(cluster, path string) error {
	secret, err := w.objects.Resource(secretsResource).Namespace(namespace).Get(w.t.Context(), cluster+"-kubeconfig",
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	if data(*secret, "value") == "" {
		return errors.New("it is empty")
	}
	address, err := url.Parse(w.downstreamConfig(cluster).Host)
	if err != nil || !strings.HasSuffix(address.Path, path) {
		return fmt.Errorf("it has the server %v, not %s: %w", address, path, err)
	}
	return nil
}
