package reach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/tests/contract/plane"
)

// TestSync copies a Secret and a ConfigMap into a cluster through its tunnel, changes and deletes them, and finds what
// Drover knows about the cluster.
func TestSync(t *testing.T) {
	w := newWorld(t)
	namespace := plane.Namespace(t)
	config, err := clientcmd.BuildConfigFromFlags("", w.downstream.Kubeconfig())
	w.must(err)
	inside, err := kubernetes.NewForConfig(config)
	w.must(err)
	_, err = inside.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Data: map[string][]byte{"a": []byte("theirs")},
	}, metav1.CreateOptions{})
	w.must(err)
	annotations := map[string]string{"provisioning.cattle.io/sync": "true",
		"provisioning.cattle.io/sync-target-namespace": "kube-system",
		"rke.cattle.io/object-authorized-for-clusters": "imported",
		"provisioning.cattle.io/sync-target-name":      "login"}
	login, err := w.upstream.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "creds", Annotations: annotations}, Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{"username": []byte("of {{clusterId}}"), "password": []byte("first")},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.upstream.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Annotations: annotations}, Data: map[string]string{"a": "b"},
	}, metav1.CreateOptions{})
	w.must(err)
	taken := map[string]string{}
	for key, value := range annotations {
		taken[key] = strings.ReplaceAll(value, "login", "foreign")
	}
	_, err = w.upstream.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "taken", Annotations: taken}, Data: map[string][]byte{"a": []byte("ours")},
	}, metav1.CreateOptions{})
	w.must(err)

	id := w.attach(namespace, "imported", w.downstream)
	content := func(name string) string {
		found, err := inside.CoreV1().Secrets("kube-system").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return string(found.Type) + " " + string(found.Data["username"]) + " " + string(found.Data["password"])
	}
	await := func(what, want string) {
		t.Helper()
		plane.Until(w, 30*time.Second, func() string {
			if got := content("login"); got != want {
				return fmt.Sprintf("%s, the copy is %q, want %q\n%s", what, got, want, w.agentLog())
			}
			return ""
		})
	}
	await("after the agent connected", "kubernetes.io/basic-auth of "+id+" first")
	settings, err := inside.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "login", metav1.GetOptions{})
	if err != nil || settings.Data["a"] != "b" {
		t.Errorf("the copy of the ConfigMap has %v: %v", settings.Data, err)
	}
	login.Data["password"] = []byte("second")
	login, err = w.upstream.CoreV1().Secrets(namespace).Update(t.Context(), login, metav1.UpdateOptions{})
	w.must(err)
	await("after an edit", "kubernetes.io/basic-auth of "+id+" second")
	login.Annotations["rke.cattle.io/object-authorized-for-clusters"] = "another"
	login, err = w.upstream.CoreV1().Secrets(namespace).Update(t.Context(), login, metav1.UpdateOptions{})
	w.must(err)
	await("without authorization", "")
	login.Annotations["rke.cattle.io/object-authorized-for-clusters"] = "imported"
	_, err = w.upstream.CoreV1().Secrets(namespace).Update(t.Context(), login, metav1.UpdateOptions{})
	w.must(err)
	await("with authorization again", "kubernetes.io/basic-auth of "+id+" second")
	w.must(w.upstream.CoreV1().Secrets(namespace).Delete(t.Context(), "creds", metav1.DeleteOptions{}))
	await("after the deletion", "")

	foreign, err := inside.CoreV1().Secrets("kube-system").Get(t.Context(), "foreign", metav1.GetOptions{})
	if err != nil || string(foreign.Data["a"]) != "theirs" {
		t.Errorf("the foreign Secret has %d keys: %v", len(foreign.Data), err)
	}
	plane.Until(w, 30*time.Second, func() string {
		out := w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "get", "events", "-o",
			"jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{\"\\n\"}{end}")
		if !strings.Contains(out, "taken SyncRefused Not copied into cluster imported: Secret kube-system/foreign") {
			return "no Event says why a Secret is not copied:\n" + out
		}
		return ""
	})
	w.counted(id, inside)
}

// counted waits for the version and the nodes of an imported cluster in the status of its management Cluster.
func (w *world) counted(id string, inside kubernetes.Interface) {
	w.Helper()
	nodes, err := inside.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	version, err := inside.Discovery().ServerVersion()
	w.must(err)
	want := strings.TrimSpace(fmt.Sprintf("%d %s %d %s %s", len(nodes.Items), version.GitVersion, len(nodes.Items),
		version.GitVersion, nodes.Items[0].Labels[corev1.LabelArchStable]))
	plane.Until(w, 30*time.Second, func() string {
		got := w.kubectlOK(plane.Kubeconfig(w), "", "get", "clusters.management.cattle.io", id, "-o",
			"jsonpath={.status.nodeCount} {.status.version.gitVersion} {.status.info.nodeCount} "+
				"{.status.info.kubernetesVersion} {.status.info.arch}")
		if got != want {
			return fmt.Sprintf("the status has %q, want %q", got, want)
		}
		return ""
	})
}
