package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// restoreTimeout is the limit of a restore, which stops and restarts all servers one after the other.
const restoreTimeout = 10 * time.Minute

var (
	snapshotsResource = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1",
		Resource: "etcdsnapshots"}
	snapshotFilesResource = schema.GroupVersionResource{Group: "k3s.cattle.io", Version: "v1",
		Resource: "etcdsnapshotfiles"}
)

// Ways to name a snapshot for a restore.
const (
	byList = "the ETCDSnapshot of Drover"
	byHand = "an ETCDSnapshot of a user"
	byFile = "the name of the file"
	// byMistake is the name of a file that does not exist. The machine keeps its data, and the next restore recovers
	// the cluster.
	byMistake = "a wrong name"
)

// TestSnapshotRestore restores a snapshot of a cluster in use. Deleted objects are back, and newer objects are gone.
// Machines, nodes and access to the cluster stay the same. The snapshot stays, so that a cluster can restore it twice.
func TestSnapshotRestore(t *testing.T) {
	t.Run("RKE2, servers with both roles", func(t *testing.T) {
		goBack(t, "v1.36.3+rke2r1", []pool{{"server", 3, "ec"}, {"worker", 1, "w"}}, byList, byHand)
	})
	t.Run("K3s, servers with one role each", func(t *testing.T) {
		goBack(t, "v1.36.3+k3s1", []pool{{"etcd", 3, "e"}, {"api", 1, "c"}, {"worker", 1, "w"}}, byList)
	})
}

// TestRestoreOneServer restores a snapshot of the smallest cluster.
func TestRestoreOneServer(t *testing.T) {
	goBack(t, "v1.36.3+rke2r1", []pool{{"server", 1, "ecw"}}, byList)
}

// TestRestoreByMistake names a missing file, and then restores an existing one. Meanwhile the only server keeps its
// data.
func TestRestoreByMistake(t *testing.T) {
	goBack(t, "v1.36.3+k3s1", []pool{{"server", 1, "ecw"}}, byMistake, byFile)
}

func goBack(t *testing.T, version string, pools []pool, ways ...string) {
	t.Helper()
	members := 0
	for _, p := range pools {
		if strings.Contains(p.roles, "e") {
			members += p.quantity
		}
	}
	w := newWorld(t, "restore")
	must(t, w.Apply(t.Context(), manifest("restore", version, pools...)))
	w.awaitReady("restore")
	r := &restored{world: w, known: w.downstreamConfig("restore")}
	machines, nodes := r.machines(), r.nodes()
	r.make("made-before")

	r.takeSnapshot(1)
	files := r.snapshotFiles(members)
	machine, file := r.ofAnother(files)
	listed := r.listed(files)
	r.write("by-hand", machine, file)
	for i, way := range ways {
		if i == 0 || ways[i-1] != byMistake {
			r.remove("made-before")
			r.make("made-after")
		}
		if way == byMistake {
			r.failToRestore(file+"0", i+1)
			continue
		}
		r.restore(map[string]string{byList: listed[file], byHand: "by-hand", byFile: file}[way], i+1)
		r.awaitReady("restore")
		r.expect("made-before", true)
		r.expect("made-after", false)
		for what, pair := range map[string][2]any{
			"Machines":                    {machines, r.machines()},
			"nodes":                       {nodes, r.nodes()},
			"known snapshots":             {files, r.snapshotFiles(members)},
			"snapshots that Drover lists": {listed, r.listed(files)},
		} {
			if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
				t.Errorf("the restore with %s has changed %s (-before +after):\n%s", way, what, diff)
			}
		}
	}
}

// restored is the cluster "restore" that is restored from a snapshot.
type restored struct {
	*world
	// known is the client configuration from before the restore.
	known *rest.Config
}

func (r *restored) client() kubernetes.Interface {
	r.t.Helper()
	client, err := kubernetes.NewForConfig(r.known)
	must(r.t, err)
	return client
}

// machines returns the Machines' UIDs by name.
func (r *restored) machines() map[string]string {
	r.t.Helper()
	list, err := r.list(machinesResource)
	must(r.t, err)
	uids := map[string]string{}
	for i := range list {
		uids[list[i].GetName()] = string(list[i].GetUID())
	}
	return uids
}

// nodes returns the names of the ready nodes.
func (r *restored) nodes() []string {
	r.t.Helper()
	list, err := r.client().CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	must(r.t, err)
	var names []string
	for i := range list.Items {
		ready := slices.ContainsFunc(list.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		names = append(names, fmt.Sprintf("%s, ready: %t", list.Items[i].Name, ready))
	}
	return names
}

// make creates a ConfigMap and a Secret. RKE2 encrypts the Secret with keys that a snapshot contains only in encrypted
// form.
func (r *restored) make(name string) {
	r.t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := r.client().CoreV1().ConfigMaps("default").Create(r.t.Context(), &corev1.ConfigMap{ObjectMeta: meta},
		metav1.CreateOptions{})
	must(r.t, err)
	_, err = r.client().CoreV1().Secrets("default").Create(r.t.Context(),
		&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"of": name}}, metav1.CreateOptions{})
	must(r.t, err)
}

func (r *restored) remove(name string) {
	r.t.Helper()
	must(r.t, r.client().CoreV1().ConfigMaps("default").Delete(r.t.Context(), name, metav1.DeleteOptions{}))
	must(r.t, r.client().CoreV1().Secrets("default").Delete(r.t.Context(), name, metav1.DeleteOptions{}))
}

func (r *restored) expect(name string, wanted bool) {
	r.t.Helper()
	_, err := r.client().CoreV1().ConfigMaps("default").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	if there := err == nil; there != wanted {
		r.t.Errorf("ConfigMap %s exists: %t, want %t", name, there, wanted)
	}
	secret, err := r.client().CoreV1().Secrets("default").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	if there := err == nil && string(secret.Data["of"]) == name; there != wanted {
		r.t.Errorf("Secret %s exists: %t, want %t", name, there, wanted)
	}
}

// takeSnapshot requests a snapshot and waits until it is taken.
func (r *restored) takeSnapshot(generation int) {
	r.t.Helper()
	r.change("restore", fmt.Sprintf(`{"spec": {"rkeConfig": {"etcdSnapshotCreate": {"generation": %d}}}}`, generation))
	r.operation(readyTimeout, "etcdSnapshotCreate", "ETCDSnapshotCreated", generation)
}

// restore requests a restore and waits until it is done.
func (r *restored) restore(name string, generation int) {
	r.t.Helper()
	r.change("restore", fmt.Sprintf(`{"spec": {"rkeConfig": {"etcdSnapshotRestore": {"name": %q, "generation": %d}}}}`,
		name, generation))
	r.operation(restoreTimeout, "etcdSnapshotRestore", "ETCDSnapshotRestored", generation)
}

// failToRestore requests the restore of a missing snapshot. It waits until that has failed without touching the data.
func (r *restored) failToRestore(name string, generation int) {
	r.t.Helper()
	r.change("restore", fmt.Sprintf(`{"spec": {"rkeConfig": {"etcdSnapshotRestore": {"name": %q, "generation": %d}}}}`,
		name, generation))
	r.within(restoreTimeout, "a restore with a wrong name has failed", func() error {
		controlPlane, err := r.objects.Resource(controlPlanesResource).Namespace(namespace).Get(r.t.Context(),
			"restore", metav1.GetOptions{})
		if err != nil {
			return err
		}
		handled, _, _ := unstructured.NestedInt64(controlPlane.Object, "status", "etcdSnapshotRestore", "generation")
		phase, _, _ := unstructured.NestedString(controlPlane.Object, "status", "etcdSnapshotRestorePhase")
		if handled != int64(generation) || phase != string(rkev1.ETCDSnapshotPhaseFailed) {
			return fmt.Errorf("restore %d is in %s", handled, phase)
		}
		if why := fmt.Sprint(controlPlane.Object["status"]); !strings.Contains(why, " is not on this machine") {
			r.t.Errorf("the status has no reason: %s", why)
		}
		return nil
	})
	for _, machine := range r.Lab.List() {
		there, err := r.Lab.FileExists(machine.Name, "/var/lib/rancher/k3s/server/db/etcd/member")
		must(r.t, err)
		if !there {
			r.t.Errorf("%s has lost its data", machine.Name)
		}
	}
}

// operation waits until a requested operation has succeeded, and logs the duration of each phase.
func (r *restored) operation(length time.Duration, field, condition string, generation int) {
	r.t.Helper()
	start, last := time.Now(), ""
	r.within(length, fmt.Sprintf("%s %d has succeeded", field, generation), func() error {
		controlPlane, err := r.objects.Resource(controlPlanesResource).Namespace(namespace).Get(r.t.Context(),
			"restore", metav1.GetOptions{})
		if err != nil {
			return err
		}
		handled, _, _ := unstructured.NestedInt64(controlPlane.Object, "status", field, "generation")
		phase, _, _ := unstructured.NestedString(controlPlane.Object, "status", field+"Phase")
		if handled != int64(generation) {
			return errors.New("it has not started")
		}
		if phase != last {
			last = phase
			r.t.Logf("%s %d is in %s after %s", field, generation, phase, time.Since(start).Round(time.Second))
		}
		if phase == string(rkev1.ETCDSnapshotPhaseFailed) {
			conditions, _, _ := unstructured.NestedSlice(controlPlane.Object, "status", "conditions")
			r.t.Fatalf("%s %d has failed: %v", field, generation, conditions)
		}
		if got := conditionOf(controlPlane, condition); phase != string(rkev1.ETCDSnapshotPhaseFinished) ||
			got != "True" {
			return fmt.Errorf("it is in %s, and %s is %q", phase, condition, got)
		}
		return nil
	})
}

// snapshotFiles returns the snapshots in the cluster by node, once the given number of nodes have one each.
func (r *restored) snapshotFiles(nodes int) map[string]string {
	r.t.Helper()
	objects, err := dynamic.NewForConfig(r.known)
	must(r.t, err)
	var files map[string]string
	r.within(time.Minute, "a snapshot of every machine with etcd", func() error {
		list, err := objects.Resource(snapshotFilesResource).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		files = map[string]string{}
		for i := range list.Items {
			object := list.Items[i].Object
			if ready, _, _ := unstructured.NestedBool(object, "status", "readyToUse"); !ready {
				continue
			}
			if spec, _, _ := unstructured.NestedString(object, "spec", "metadata",
				"provisioning-cluster-spec"); spec == "" {
				return fmt.Errorf("%s does not contain the Cluster", list.Items[i].GetName())
			}
			node, _, _ := unstructured.NestedString(object, "spec", "nodeName")
			files[node], _, _ = unstructured.NestedString(object, "spec", "snapshotName")
		}
		if len(files) != nodes || len(list.Items) != nodes {
			return fmt.Errorf("%d objects, of which the nodes are %v", len(list.Items), slices.Sorted(maps.Keys(files)))
		}
		return nil
	})
	return files
}

// ofAnother returns a snapshot of a machine that is not the init node, if there is one. A restore then changes the init
// node.
func (r *restored) ofAnother(files map[string]string) (machine unstructured.Unstructured, file string) {
	r.t.Helper()
	list, err := r.list(machinesResource)
	must(r.t, err)
	for i := range list {
		node, _, _ := unstructured.NestedString(list[i].Object, "status", "nodeRef", "name")
		if name, has := files[node]; has && (list[i].GetLabels()[rkev1.InitNodeLabel] != "true" || len(files) == 1) {
			return list[i], name
		}
	}
	r.t.Fatalf("no Machine has a node with a snapshot: %v", files)
	return machine, file
}

// listed returns the names of Drover's ETCDSnapshots of the files, by file.
func (r *restored) listed(files map[string]string) map[string]string {
	r.t.Helper()
	names := map[string]string{}
	r.within(2*time.Minute, "Drover lists the snapshots", func() error {
		list, err := r.objects.Resource(snapshotsResource).Namespace(namespace).List(r.t.Context(),
			metav1.ListOptions{LabelSelector: rkev1.ClusterNameLabel + "=restore"})
		if err != nil {
			return err
		}
		clear(names)
		for i := range list.Items {
			file, _, _ := unstructured.NestedString(list.Items[i].Object, "snapshotFile", "name")
			node, _, _ := unstructured.NestedString(list.Items[i].Object, "snapshotFile", "nodeName")
			if modes := list.Items[i].GetAnnotations()[rkev1.SnapshotRestoreModesAnnotation]; files[node] == file &&
				modes == "none,kubernetesVersion,all" {
				names[file] = list.Items[i].GetName()
			}
		}
		if len(names) != len(files) {
			return fmt.Errorf("%d of %d have an ETCDSnapshot", len(names), len(files))
		}
		return nil
	})
	return names
}

// write writes the ETCDSnapshot of a file on a machine, as docs/operations.md describes.
func (r *restored) write(name string, machine unstructured.Unstructured, file string) {
	r.t.Helper()
	_, err := r.objects.Resource(snapshotsResource).Namespace(namespace).Create(r.t.Context(),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rke.cattle.io/v1", "kind": "ETCDSnapshot",
			"metadata": map[string]any{"name": name, "namespace": namespace, "ownerReferences": []any{map[string]any{
				"apiVersion": machine.GetAPIVersion(), "kind": machine.GetKind(), "name": machine.GetName(),
				"uid": string(machine.GetUID()),
			}}},
			"spec":         map[string]any{"clusterName": "restore"},
			"snapshotFile": map[string]any{"name": file},
		}}, metav1.CreateOptions{})
	must(r.t, err)
}
