package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/operate/preview"
)

const truth = "truth"

var (
	deploymentsResource = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2",
		Resource: "machinedeployments"}
	controlPlanesResource = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1",
		Resource: "rkecontrolplanes"}
)

// edit is a user's change of a cluster's file, and its effect on the machines of its two pools.
type edit struct {
	name   string
	change func(f *manifestFile)
	// server and workers are the expected classes of the pools' machines. workers is "" if the workers differ.
	server, workers planner.Class
	// machines is the number of machines afterwards.
	machines int
}

// editsOf returns edits that are made one after the other, each in the file that the previous one left.
func editsOf(upgrade string) []edit {
	const none, inPlace, restart, replace = planner.ClassNone, planner.ClassInPlace, planner.ClassRestart,
		planner.ClassReplace
	return []edit{
		{"a strategy", func(f *manifestFile) { f.set("upgradeStrategy", map[string]any{"workerConcurrency": "1"}) },
			none, none, 3},
		{"a key of the configuration", func(f *manifestFile) {
			f.set("machineGlobalConfig", map[string]any{"debug": true})
		}, restart, restart, 3},
		{"a manifest", func(f *manifestFile) {
			f.set("additionalManifest", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: told, namespace: default}\n")
		}, inPlace, none, 3},
		{"a key for workers", func(f *manifestFile) {
			f.set("machineSelectorConfig", []any{map[string]any{
				"machineLabelSelector": map[string]any{
					"matchLabels": map[string]any{"rke.cattle.io/worker-role": "true"}},
				"config": map[string]any{"kubelet-arg": []any{"max-pods=200"}},
			}})
		}, none, restart, 3},
		{"a mirror of a registry", func(f *manifestFile) {
			f.set("registries",
				map[string]any{
					"mirrors": map[string]any{"docker.io": map[string]any{"endpoint": []any{"https://mirror.test"}}}})
		}, restart, restart, 3},
		{"a file for servers", func(f *manifestFile) {
			f.set("machineSelectorFiles", []any{map[string]any{
				"machineLabelSelector": map[string]any{
					"matchLabels": map[string]any{"rke.cattle.io/control-plane-role": "true"}},
				"fileSources": []any{
					map[string]any{"configMap": map[string]any{"name": truth, "items": []any{map[string]any{
						"key": "text", "path": "/etc/told", "dynamic": true,
					}}}}},
			}})
		}, inPlace, none, 3},
		{"an upgrade with drain", func(f *manifestFile) {
			f.set("upgradeStrategy", map[string]any{"workerConcurrency": "1", "workerDrainOptions": map[string]any{
				"enabled": true, "ignoreDaemonSets": true, "deleteEmptyDirData": true, "timeout": int64(120),
			}})
			f.spec()["kubernetesVersion"] = upgrade
		}, restart, restart, 3},
		{"one more worker", func(f *manifestFile) { f.pool("worker")["quantity"] = int64(3) }, none, none, 4},
		{"one fewer worker", func(f *manifestFile) { f.pool("worker")["quantity"] = int64(2) }, none, "", 3},
		{"other hosts for the workers", func(f *manifestFile) { f.machineConfig["tag"] = "other" }, none, replace, 3},
	}
}

// TestPreviewTellsTheTruth previews each of ten edits on the command line, makes the edit on real machines, and
// compares. It counts restarts with each machine's systemd, and replacements by the UIDs of the Machines.
func TestPreviewTellsTheTruth(t *testing.T) {
	const before, after = "v1.36.2+k3s1", "v1.36.3+k3s1"
	w := newWorld(t, truth, before, after)
	w.makeTextOf("a file for servers")
	f := newManifestFile(before)
	must(t, w.Apply(t.Context(), f.bytes(t)))
	w.awaitNodes(truth, 3)
	if r := w.preview(f); r.Result != planner.ClassNone || len(r.Fields) > 0 {
		t.Fatalf("without an edit, the result is %s: %+v", r.Result, r)
	}
	for _, e := range editsOf(after) {
		w.tell(e, f)
	}
}

// tell previews an edit, makes it, and compares.
func (w *world) tell(e edit, f *manifestFile) {
	w.t.Helper()
	before := w.facts()
	e.change(f)
	report := w.preview(f)
	for _, m := range report.Machines {
		want := map[string]planner.Class{"server": e.server, "worker": e.workers}[m.Pool]
		if m.Name != "" && want != "" && m.Class != want {
			w.t.Errorf("%s: machine %s of pool %s has class %s, causes %+v", e.name, m.Name, m.Pool, m.Class, m.Causes)
		}
	}
	must(w.t, w.Apply(w.t.Context(), f.bytes(w.t)))
	w.eventually(e.name+" is complete", func() (bool, error) { return w.carriedOut(e.machines, f) })
	w.awaitNodes(truth, e.machines)
	said, happened := saidOf(report), happenedTo(before, w.facts())
	w.t.Logf("%s: %v", e.name, said)
	if e.workers == "" { // Cluster API chooses which of equal machines it removes
		said, happened = anonymous(said), anonymous(happened)
	}
	if diff := cmp.Diff(said, happened); diff != "" {
		w.t.Errorf("%s (-reported +happened):\n%s", e.name, diff)
	}
}

// manifestFile is the user's file of the cluster: the Cluster and the machine configs of its pools.
type manifestFile struct{ cluster, serverConfig, machineConfig map[string]any }

func newManifestFile(version string) *manifestFile {
	config := func(name string) map[string]any {
		return map[string]any{"apiVersion": "rke-machine-config.cattle.io/v1", "kind": "NspawnConfig",
			"metadata": map[string]any{"name": name, "namespace": namespace}}
	}
	poolOf := func(name string, quantity int64, server bool) any {
		return map[string]any{
			"name": name, "quantity": quantity, "etcdRole": server, "controlPlaneRole": server, "workerRole": !server,
			"machineConfigRef": map[string]any{"kind": "NspawnConfig", "name": truth + "-" + name},
		}
	}
	return &manifestFile{
		serverConfig: config(truth + "-server"), machineConfig: config(truth + "-worker"),
		cluster: map[string]any{
			"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
			"metadata": map[string]any{"name": truth, "namespace": namespace},
			"spec": map[string]any{
				"kubernetesVersion": version, "cloudCredentialSecretName": "cattle-global-data:cc-lab",
				"rkeConfig": map[string]any{"machinePools": []any{poolOf("server", 1, true),
					poolOf("worker", 2, false)}},
			},
		},
	}
}

func (f *manifestFile) spec() map[string]any { return f.cluster["spec"].(map[string]any) }

// set changes a field of the rkeConfig.
func (f *manifestFile) set(field string, value any) {
	f.spec()["rkeConfig"].(map[string]any)[field] = value
}

func (f *manifestFile) pool(name string) map[string]any {
	pools := f.spec()["rkeConfig"].(map[string]any)["machinePools"].([]any)
	i := slices.IndexFunc(pools, func(p any) bool { return p.(map[string]any)["name"] == name })
	return pools[i].(map[string]any)
}

func (f *manifestFile) bytes(t *testing.T) []byte {
	t.Helper()
	var out []byte
	for _, object := range []map[string]any{f.serverConfig, f.machineConfig, f.cluster} {
		data, err := json.Marshal(object)
		must(t, err)
		out = append(append(out, data...), "\n---\n"...)
	}
	return out
}

// makeTextOf creates the ConfigMap that is the source of a file on the servers.
func (w *world) makeTextOf(text string) {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": text},
		"metadata": map[string]any{"name": truth, "namespace": namespace,
			"annotations": map[string]any{rkev1.AuthorizedObjectAnnotation: truth}},
	}}
	_, err := w.objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace).Create(
		w.t.Context(), object, metav1.CreateOptions{})
	must(w.t, err)
}

// preview runs the command on a file, and compares its exit code with its report.
func (w *world) preview(f *manifestFile) preview.Report {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "cluster.yaml")
	must(w.t, os.WriteFile(path, f.bytes(w.t), 0o600))
	cmd := inNetns(w.t.Context(), w.Lab.Namespace(), filepath.Join(w.Bin, "drover"), "preview", "--filename="+path,
		"--output=json",
		"--kubeconfig="+filepath.Join(w.DataDir(), "kubeconfig"))
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		w.t.Fatal(err)
	}
	var report preview.Report
	if err := json.Unmarshal(out, &report); err != nil {
		w.t.Fatalf("%s: %v: %s%s", cmd, err, out, ended.Stderr)
	}
	want := 2
	switch report.Result {
	case planner.ClassNone:
		want = 0
	case planner.ClassReplace:
		want = 3
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		w.t.Errorf("exit code %d for %s, want %d: %s", got, report.Result, want, out)
	}
	return report
}

// saidOf returns the classes of a report by machine. New machines have no name yet.
func saidOf(r preview.Report) map[string]planner.Class {
	out := map[string]planner.Class{}
	for i, m := range r.Machines {
		name := m.Name
		if name == "" {
			name = fmt.Sprintf("new %d", i)
		}
		out[name] = m.Class
	}
	return out
}

// fact is the observable state of a machine.
type fact struct {
	uid    string
	starts string
	// plan is the plan's files and instructions, without the copy of the spec that etcd snapshots contain.
	plan string
}

func (w *world) facts() map[string]fact {
	w.t.Helper()
	// The ID is systemd's SD_MESSAGE_UNIT_STARTING.
	const starts = "journalctl --sync; journalctl --quiet --output=cat UNIT=k3s.service UNIT=k3s-agent.service " +
		"MESSAGE_ID=7d4958e842da4a758f6c1cdc7b36dcc5 | wc -l"
	machines, err := w.list(machinesResource)
	must(w.t, err)
	out := map[string]fact{}
	for i := range machines {
		name := machines[i].GetName()
		secret, err := w.objects.Resource(secretsResource).Namespace(namespace).Get(w.t.Context(), name+"-machine-plan",
			metav1.GetOptions{})
		must(w.t, err)
		raw, err := base64.StdEncoding.DecodeString(data(*secret, nodeplan.KeyPlan))
		must(w.t, err)
		delivered, err := nodeplan.Decode(raw)
		must(w.t, err)
		delivered.Files = slices.DeleteFunc(delivered.Files, render.IsSnapshotMetadata)
		plan, err := nodeplan.Encode(delivered)
		must(w.t, err)
		out[name] = fact{string(machines[i].GetUID()), w.command(name, starts), string(plan)}
	}
	return out
}

// happenedTo classifies what happened to the machines.
func happenedTo(before, after map[string]fact) map[string]planner.Class {
	out := map[string]planner.Class{}
	var fresh, gone []string
	for name, was := range before {
		now, there := after[name]
		switch {
		case !there || now.uid != was.uid:
			gone = append(gone, name)
		case now.starts != was.starts:
			out[name] = planner.ClassRestart
		case now.plan != was.plan:
			out[name] = planner.ClassInPlace
		default:
			out[name] = planner.ClassNone
		}
	}
	for name, now := range after {
		if was, there := before[name]; !there || now.uid != was.uid {
			fresh = append(fresh, name)
		}
	}
	// A removed machine with a new one in its place was replaced.
	for i, name := range gone {
		out[name] = planner.ClassRemove
		if i < len(fresh) {
			out[name] = planner.ClassReplace
		}
	}
	for i := len(gone); i < len(fresh); i++ {
		out[fmt.Sprintf("new %d", len(before)+i-len(gone))] = planner.ClassAdd
	}
	return out
}

// anonymous replaces the names of machines by numbers, in the order of their classes.
func anonymous(classes map[string]planner.Class) map[string]planner.Class {
	out := map[string]planner.Class{}
	for i, class := range slices.Sorted(maps.Values(classes)) {
		out[strconv.Itoa(i)] = class
	}
	return out
}

// carriedOut reports whether Drover's controllers, Cluster API, the cloud and the agents have applied the newest file.
func (w *world) carriedOut(machines int, f *manifestFile) (bool, error) {
	tag, _ := f.machineConfig["tag"].(string)
	for _, machine := range w.Lab.List() {
		if strings.Contains(machine.Name, "-worker-") && machine.Tag != tag {
			return false, fmt.Errorf("machine %s has the tag %q", machine.Name, machine.Tag)
		}
	}
	for _, resource := range []schema.GroupVersionResource{clustersResource, controlPlanesResource} {
		object, err := w.objects.Resource(resource).Namespace(namespace).Get(w.t.Context(), truth, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		if observed != object.GetGeneration() || conditionOf(object, "Ready") != "True" ||
			conditionOf(object, "Reconciled") == "False" {
			return false, fmt.Errorf("%s: generation %d of %d", resource.Resource, observed, object.GetGeneration())
		}
	}
	deployments, err := w.list(deploymentsResource)
	if err != nil {
		return false, err
	}
	total := 0
	for i := range deployments {
		status, _, _ := unstructured.NestedMap(deployments[i].Object, "status")
		want, _, _ := unstructured.NestedInt64(deployments[i].Object, "spec", "replicas")
		for _, count := range []string{"replicas", "upToDateReplicas", "readyReplicas"} {
			if status[count] != want {
				return false, fmt.Errorf("%s: %s is %v, want %d", deployments[i].GetName(), count, status[count], want)
			}
		}
		if status["observedGeneration"] != deployments[i].GetGeneration() {
			return false, fmt.Errorf("%s: generation not observed", deployments[i].GetName())
		}
		total += int(want)
	}
	return total == machines, nil
}
