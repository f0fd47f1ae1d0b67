package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRestoreConfig takes a snapshot, edits the configuration, upgrades, and restores everything. The data, the version
// and the configuration are those of the snapshot, in the Cluster and on the machines. A snapshot with damaged metadata
// is refused first, and the cluster works on.
func TestRestoreConfig(t *testing.T) {
	const before, after = "v1.36.2+k3s1", "v1.36.3+k3s1"
	pools := []pool{{"server", 1, "ec"}, {"worker", 1, "w"}}
	w := newWorld(t, "restoreconfig", before, after)
	must(t, w.Apply(t.Context(), append(manifest("restore", before, pools...),
		"    machineGlobalConfig: {debug: true}\n"...)))
	w.awaitReady("restore")
	r := &restored{world: w, known: w.downstreamConfig("restore")}
	r.make("made-before")
	r.takeSnapshot(1)
	files := r.snapshotFiles(1)
	machine, file := r.ofAnother(files)
	name := r.listed(files)[file]

	r.remove("made-before")
	r.make("made-after")
	r.change("restore", fmt.Sprintf(`{"spec": {"kubernetesVersion": %q, "rkeConfig": {"machineGlobalConfig": null,
		"additionalManifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: added, namespace: default}\n"}}}`, after))
	r.configured(machine.GetName(), after, false)
	r.awaitReady("restore")

	r.write("by-hand", machine, file) // without metadata
	r.refuses("by-hand", 1)
	r.expect("made-after", true)

	r.change("restore", fmt.Sprintf(
		`{"spec": {"rkeConfig": {"etcdSnapshotRestore": {"name": %q, "generation": 2, "restoreRKEConfig": "all"}}}}`, name))
	r.operation(restoreTimeout, "etcdSnapshotRestore", "ETCDSnapshotRestored", 2)
	r.awaitReady("restore")
	r.expect("made-before", true)
	r.expect("made-after", false)
	r.configured(machine.GetName(), before, true)
	spec := r.specOf("restore")
	if version, _, _ := unstructured.NestedString(spec, "kubernetesVersion"); version != before {
		t.Errorf("spec.kubernetesVersion is %s, want %s", version, before)
	}
	if manifest, has, _ := unstructured.NestedString(spec, "rkeConfig", "additionalManifest"); has && manifest != "" {
		t.Errorf("the spec still has the manifest %q", manifest)
	}
	if debug, _, _ := unstructured.NestedBool(spec, "rkeConfig", "machineGlobalConfig", "debug"); !debug {
		t.Error("the configuration in the spec is not back")
	}
}

func (r *restored) specOf(cluster string) map[string]any {
	r.t.Helper()
	found, err := r.objects.Resource(clustersResource).Namespace(namespace).Get(r.t.Context(), cluster,
		metav1.GetOptions{})
	must(r.t, err)
	spec, _, _ := unstructured.NestedMap(found.Object, "spec")
	return spec
}

// configured waits until all nodes run a version, and the machine is configured with or without debug.
func (r *restored) configured(machine, version string, debug bool) {
	r.t.Helper()
	const count = "cat /etc/rancher/k3s/config.yaml.d/*.yaml | grep -c '\"debug\"' || true"
	r.within(restoreTimeout, "all nodes run "+version, func() error {
		list, err := r.client().CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if got := list.Items[i].Status.NodeInfo.KubeletVersion; got != version {
				return fmt.Errorf("node %s runs %s", list.Items[i].Name, got)
			}
		}
		return nil
	})
	if got := strings.TrimSpace(r.command(machine, count)); (got == "1") != debug {
		r.t.Errorf("%s is configured with debug %s times, want %t", machine, got, debug)
	}
}

// refuses requests a restore with the configuration of a snapshot that has none. It waits until the webhook refuses it,
// or a condition of the Cluster, and takes it back.
func (r *restored) refuses(name string, generation int) {
	r.t.Helper()
	request := fmt.Sprintf(
		`{"spec": {"rkeConfig": {"etcdSnapshotRestore": {"name": %q, "generation": %d, "restoreRKEConfig": "all"}}}}`,
		name, generation)
	const want = "does not contain the Kubernetes version"
	if err := r.tryChange("restore", request); err != nil {
		if !strings.Contains(err.Error(), want) {
			r.t.Errorf("the webhook says %q", err)
		}
		return
	}
	r.within(readyTimeout, "the restore is refused", func() error {
		found, err := r.objects.Resource(clustersResource).Namespace(namespace).Get(r.t.Context(), "restore",
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(found.Object["status"]); !strings.Contains(text, want) {
			return fmt.Errorf("no condition says it: %s", text)
		}
		return nil
	})
	r.change("restore", `{"spec": {"rkeConfig": {"etcdSnapshotRestore": null}}}`)
}
