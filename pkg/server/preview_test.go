package server

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// reader inspects the cluster with a user's rights. The rights do not allow writes.
func (w *world) reader() *inspect.Reader { return w.readerWith(nil) }

// readerWith is a reader with other settings than the published ones.
func (w *world) readerWith(override func(*controllers.Settings)) *inspect.Reader {
	w.Helper()
	table, err := releases.Embedded()
	check(w.T, err)
	r, err := inspect.New(w.Context(), inspect.Options{Config: w.api.Config("looker"), Version: "look", Releases: table,
		Override: override}, fleet)
	check(w.T, err)
	return r
}

// preview returns the preview of an edit, made from a file as a user would have it.
func (w *world) preview(change func(*provv1.Cluster), config map[string]any) preview.Report {
	w.Helper()
	cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
	check(w.T, err)
	cluster.TypeMeta = metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"}
	cluster.ObjectMeta = metav1.ObjectMeta{Name: demo, Namespace: fleet}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		cluster.Spec.RKEConfig.MachinePools[i].DynamicSchemaSpec = ""
	}
	if change != nil {
		change(cluster)
	}
	data, err := yaml.Marshal(cluster)
	check(w.T, err)
	if config != nil {
		more, err := yaml.Marshal(config)
		check(w.T, err)
		data = slices.Concat(data, []byte("\n---\n"), more)
	}
	file, err := inspect.ParseFile(data)
	check(w.T, err)
	r := w.reader()
	defer r.Close()
	report, err := r.Preview(file)
	check(w.T, err)
	return report
}

// said returns the classes of a report by machine. New machines count under their pool.
func said(r preview.Report) map[string]planner.Class {
	out := map[string]planner.Class{}
	for _, m := range r.Machines {
		if m.Name == "" {
			out["new in "+m.Pool] = m.Class
			continue
		}
		out[m.Name] = m.Class
	}
	return out
}

// fact is the visible state of a machine. It omits the copy of the spec that etcd snapshots contain.
type fact struct {
	plan     string
	installs int
}

func (w *world) facts() map[string]fact {
	w.Helper()
	installs, out := w.installs(), map[string]fact{}
	for _, m := range w.objects("Machine") {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: m.GetName() + "-machine-plan"}}
		if found, err := w.api.Get(secret); err != nil || !found {
			w.Fatalf("plan secret of %s: %v", m.GetName(), err)
		}
		delivered, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
		check(w.T, err)
		delivered.Files = slices.DeleteFunc(delivered.Files, render.IsSnapshotMetadata)
		plan, err := nodeplan.Encode(delivered)
		check(w.T, err)
		out[m.GetName()] = fact{string(plan), installs[m.GetName()]}
	}
	return out
}

// happened classifies what happened to each machine.
func happened(before, after map[string]fact) map[string]planner.Class {
	out := map[string]planner.Class{}
	for name, was := range before {
		now, there := after[name]
		switch {
		case !there:
			out[name] = "gone"
		case now.installs > was.installs:
			out[name] = planner.ClassRestart
		case now.plan != was.plan:
			out[name] = planner.ClassInPlace
		default:
			out[name] = planner.ClassNone
		}
	}
	return out
}

// What a preview announces is what then happens to the machines.
func TestStory_PreviewTellsTheTruth(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 2))
		w.until("the cluster", 5*time.Minute, w.ready(3))
		time.Sleep(time.Minute)
		if r := w.preview(nil, nil); r.Result != planner.ClassNone || len(r.Fields) > 0 {
			t.Fatalf("without an edit, the result is %s: %+v", r.Result, r)
		}
		for _, edit := range []struct {
			name   string
			change func(*provv1.Cluster)
			result planner.Class
			field  string
		}{
			{"a strategy", func(c *provv1.Cluster) {
				c.Spec.RKEConfig.UpgradeStrategy.WorkerConcurrency = "2"
			}, planner.ClassNone, "spec.rkeConfig.upgradeStrategy.workerConcurrency"},
			{"a key of the configuration", func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"debug": true}
			}, planner.ClassRestart, "spec.rkeConfig.machineGlobalConfig.debug"},
			{"a manifest", func(c *provv1.Cluster) {
				c.Spec.RKEConfig.AdditionalManifest = "kind: ConfigMap"
			}, planner.ClassInPlace, "spec.rkeConfig.additionalManifest"},
			{"an upgrade", func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.3+k3s1" }, planner.ClassRestart,
				"spec.kubernetesVersion"},
		} {
			before := w.facts()
			r := w.preview(edit.change, nil)
			if r.Result != edit.result || len(r.Fields) != 1 || r.Fields[0].Field != edit.field {
				t.Errorf("%s: the result is %s, causes %+v, want %s, cause %s", edit.name, r.Result, r.Fields,
					edit.result, edit.field)
			}
			w.edit(edit.change)
			time.Sleep(3 * time.Minute)
			w.until(edit.name, 10*time.Minute, w.ready(3))
			if diff := cmp.Diff(said(r), happened(before, w.facts())); diff != "" {
				t.Errorf("%s (-reported +happened):\n%s", edit.name, diff)
			}
		}
		w.previewOfPools()
		w.disrupted(disruptions.Counts{disruption.EditConfiguration: 3, disruption.EditVersion: 3,
			disruption.EditPool: 3})
		for _, write := range w.api.Writes("drover/look") {
			t.Errorf("a preview wrote: %v", write)
		}
	})
}

// disrupted fails unless exactly these disruptions are counted.
func (w *world) disrupted(want disruptions.Counts) {
	w.Helper()
	got, err := disruptions.Gathered(w.metrics)
	check(w.T, err)
	maps.DeleteFunc(got, func(_ disruption.Cause, n int) bool { return n == 0 })
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("disruptions (-want +got):\n%s", diff)
	}
}

// previewOfPools continues with edits that replace, add and remove machines.
func (w *world) previewOfPools() {
	w.Helper()
	before := w.facts()
	config := map[string]any{
		"apiVersion": "rke-machine-config.cattle.io/v1", "kind": "DigitaloceanConfig",
		"metadata": map[string]any{"name": demo + "-worker", "namespace": fleet},
		"region":   "fra1", "size": "s-4vcpu-8gb",
	}
	r := w.preview(nil, config)
	if r.Result != planner.ClassReplace || len(r.Fields) != 1 ||
		r.Fields[0].Field != "DigitaloceanConfig/demo-worker: size" {
		w.Errorf("another size: the result is %s, causes %+v", r.Result, r.Fields)
	}
	for _, m := range r.Machines {
		if want := map[string]planner.Class{"server": planner.ClassNone,
			"worker": planner.ClassReplace}[m.Pool]; m.Class != want {
			w.Errorf("machine %s of pool %s: %s, want %s", m.Name, m.Pool, m.Class, want)
		}
	}
	smaller := func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 1 }
	r = w.preview(smaller, nil)
	w.edit(smaller)
	w.until("one fewer worker", 10*time.Minute, w.ready(2))
	gone := map[string]planner.Class{}
	for name, class := range said(r) {
		if class == planner.ClassRemove {
			class = "gone"
		}
		gone[name] = class
	}
	if found := happened(before, w.facts()); !sameCounts(gone, found) {
		w.Errorf("one fewer worker: reported %v, happened %v", gone, found)
	}
	larger := func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 3 }
	r = w.preview(larger, nil)
	w.edit(larger)
	w.until("two more workers", 10*time.Minute, w.ready(4))
	if r.Result != planner.ClassAdd || said(r)["new in worker"] != planner.ClassAdd || len(r.Machines) != 4 {
		w.Errorf("two more workers: %+v", r.Machines)
	}
	w.previewOfReplacement(config)
}

// previewOfReplacement gives the workers other hosts.
func (w *world) previewOfReplacement(config map[string]any) {
	w.Helper()
	before, r := w.facts(), w.preview(nil, config)
	patch := []byte(`{"size":"s-4vcpu-8gb"}`)
	configs := w.live.Resource(schema.GroupVersionResource{Group: "rke-machine-config.cattle.io", Version: "v1",
		Resource: "digitaloceanconfigs"})
	_, err := configs.Namespace(fleet).Patch(w.Context(), demo+"-worker", types.MergePatchType, patch,
		metav1.PatchOptions{})
	check(w.T, err)
	time.Sleep(10 * time.Minute)
	w.until("other workers", 20*time.Minute, w.ready(4))
	want := said(r)
	for name, class := range want {
		if class == planner.ClassReplace {
			want[name] = "gone"
		}
	}
	if diff := cmp.Diff(want, happened(before, w.facts())); diff != "" {
		w.Errorf("other workers (-reported +happened):\n%s", diff)
	}
}

// sameCounts compares the number of machines in each class. Cluster API chooses which of several equal machines to
// remove.
func sameCounts(a, b map[string]planner.Class) bool {
	return slices.Equal(slices.Sorted(maps.Values(a)), slices.Sorted(maps.Values(b)))
}

func TestStory_ExplainTellsWhatIsWaitedFor(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 1))
		r := w.reader()
		e, err := r.Explain(demo)
		r.Close()
		if err != nil || e.Decision != nil && e.Decision.Step == "steady" {
			t.Errorf("a new cluster: %+v, %v", e, err)
		}
		w.until("the cluster", 5*time.Minute, w.ready(2))
		time.Sleep(time.Minute)
		r = w.reader()
		defer r.Close()
		e, err = r.Explain(demo)
		check(t, err)
		if e.Decision == nil || e.Decision.Step != "steady" || e.Decision.Wait != nil || len(e.Decision.Effects) > 0 {
			t.Errorf("a settled cluster: %+v", e.Decision)
		}
		if e.ManagedBy != "test" || len(e.Decision.Machines) != 2 || e.Decision.Machines[0].Plan != "applied" {
			t.Errorf("%+v, machines %+v", e, e.Decision.Machines)
		}
		names, err := r.Names()
		if diff := cmp.Diff([]string{demo}, names); diff != "" || err != nil {
			t.Errorf("names: %v %s", err, diff)
		}
		for _, write := range w.api.Writes("drover/look") {
			t.Errorf("explain wrote: %v", write)
		}
	})
}

// A roll uses the settings that the server has published, unless the user passes others.
func TestStory_RollKnowsTheServersSettings(t *testing.T) {
	tell(t, func(w *world) {
		w.registry = "registry.example.com"
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 5*time.Minute, w.ready(2))
		time.Sleep(time.Minute)
		for _, look := range []struct {
			name     string
			override func(*controllers.Settings)
			pending  bool
		}{
			{"as published", nil, false},
			{"with another registry", func(s *controllers.Settings) { s.SystemDefaultRegistry = "other.example.com" },
				true},
		} {
			r := w.readerWith(look.override)
			roll, err := r.Roll(demo, "", nil)
			r.Close()
			check(t, err)
			if roll.SettingsUnknown != "" || roll.Result != planner.ClassNone || len(roll.Machines) != 2 {
				t.Errorf("%s: %+v", look.name, roll)
			}
			for _, m := range roll.Machines {
				if m.Pending != look.pending || m.Class != planner.ClassNone != look.pending {
					t.Errorf("%s: %+v", look.name, m)
				}
			}
		}
	})
}
