package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// made has another instance create a cluster, and then stops that instance.
func (w *world) made(servers, workers int32) {
	w.Helper()
	w.instance = "theirs"
	w.start()
	w.apply(k3s, w.servers(servers, workers))
	w.until("the cluster", 10*time.Minute, w.ready(int(servers+workers)))
	time.Sleep(time.Minute)
	w.stop()
	w.instance = ""
	published, err := w.user.Core.ConfigMap().List("drover-system", metav1.ListOptions{})
	check(w.T, err)
	for i := range published.Items {
		check(w.T, w.user.Core.ConfigMap().Delete("drover-system", published.Items[i].Name, &metav1.DeleteOptions{}))
	}
}

// asRancher removes from the cluster what only Drover writes. It gives the machines plans like those of another
// manager, with an instruction and a file of its own.
func (w *world) asRancher() {
	w.Helper()
	w.edit(func(c *provv1.Cluster) { delete(c.Annotations, rkev1.InstanceAnnotation) })
	list, err := w.user.CAPI.Machine().List(fleet, metav1.ListOptions{})
	check(w.T, err)
	for i := range list.Items {
		machine := &list.Items[i]
		for _, key := range []string{rkev1.RenderVersionAnnotation, rkev1.JoinURLAnnotation, rkev1.JoinedToAnnotation} {
			delete(machine.Annotations, key)
		}
		delete(machine.Labels, rkev1.InitNodeLabel)
		_, err := w.user.CAPI.Machine().Update(machine)
		check(w.T, err)
		secret, err := w.user.Core.Secret().Get(fleet, machine.Name+"-machine-plan", metav1.GetOptions{})
		check(w.T, err)
		delete(secret.Annotations, rkev1.PlanEvidenceAnnotation)
		p, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
		check(w.T, err)
		p.Instructions[0].Env = append(p.Instructions[0].Env, "THEIRS=1")
		p.Files = append(p.Files,
			plan.File{Path: "/etc/theirs", Content: base64.StdEncoding.EncodeToString([]byte("theirs"))})
		secret.Data[nodeplan.KeyPlan], err = nodeplan.Encode(p)
		check(w.T, err)
		_, err = w.user.Core.Secret().Update(secret)
		check(w.T, err)
	}
	time.Sleep(2 * time.Minute) // the nodes apply them
}

// state returns a property, such as the resource version or the UID, of every object of the cluster.
func (w *world) state(of func(metav1.Object) string) map[string]string {
	out := map[string]string{}
	for _, kind := range append(shown(), corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount")) {
		for _, object := range w.api.Objects(kind) {
			if object.GetNamespace() == fleet {
				out[kind.Kind+" "+object.GetName()] = of(object)
			}
		}
	}
	return out
}

func uid(o metav1.Object) string { return string(o.GetUID()) }

// foreign starts Drover with a cluster that another instance manages, and fails if Drover writes to it.
func (w *world) foreign() {
	w.Helper()
	version := func(o metav1.Object) string { return o.GetResourceVersion() }
	before := w.state(version)
	w.api.ResetLog()
	w.start()
	time.Sleep(30 * time.Minute)
	synctest.Wait()
	for _, write := range w.api.Writes(ours) {
		if text := fmt.Sprint(write); strings.Contains(text, fleet) || strings.Contains(text, "c-m-") {
			w.Errorf("a cluster of another manager is written: %v", write)
		}
	}
	after := w.state(version)
	for _, state := range []map[string]string{before, after} {
		// Agents report into plan Secrets.
		maps.DeleteFunc(state, func(key, _ string) bool { return strings.HasSuffix(key, "-machine-plan") })
	}
	if diff := cmp.Diff(before, after); diff != "" {
		w.Errorf("objects (-before +after):\n%s", diff)
	}
}

// look returns what adoption would do.
func (w *world) look() inspect.Adoption {
	w.Helper()
	r := w.reader()
	defer r.Close()
	a, err := r.Adoption(w.Context(), demo, "")
	check(w.T, err)
	return a
}

// as runs f with clients of the user that adopts.
func (w *world) as(f func(c *clients.Clients) error) error {
	w.Helper()
	c, err := clients.New(w.api.Config("adopter"), clients.Options{Version: "adopter", WithoutDynamic: true})
	check(w.T, err)
	defer c.Stop()
	return f(c)
}

func (w *world) take(a inspect.Adoption, limits adopt.Limits) error {
	w.Helper()
	return w.as(func(c *clients.Clients) error { return adopt.Take(w.Context(), c, a, limits) })
}

func (w *world) limits(from string) adopt.Limits {
	return adopt.Limits{From: from, Now: time.Now(), Idle: 5 * time.Minute}
}

// Drover observes a cluster of Rancher, adopts it on request without changing a plan, and rolls out the next edit.
func TestStory_AdoptedFromRancher(t *testing.T) {
	crashpoints.SkipRaced(t)
	for name, size := range map[string]struct {
		servers, workers int32
	}{"one server and a worker": {1, 1}, "three servers and two workers": {3, 2}} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				machines := int(size.servers + size.workers)
				w.made(size.servers, size.workers)
				w.asRancher()
				w.foreign()

				a := w.look()
				if a.Owner != inspect.OwnerUnmarked || a.Result != planner.ClassNone || len(a.Problems) > 0 ||
					len(a.Machines) != machines {
					t.Errorf("%+v", a)
				}
				for _, m := range a.Machines {
					if !m.AsFound || m.Next != planner.ClassRestart {
						t.Errorf("%+v", m)
					}
				}
				uids, before := w.state(uid), w.facts()
				var refused *adopt.Refusal
				if err := w.take(a, w.limits("")); !errors.As(err, &refused) ||
					!strings.Contains(err.Error(), "--from rancher") {
					t.Errorf("without --from: %v", err)
				}
				w.api.ResetLog()
				check(t, w.take(a, w.limits(adopt.FromRancher)))
				time.Sleep(10 * time.Minute)
				w.provesList(a)
				w.until("the adopted cluster", time.Minute, w.ready(machines))
				if diff := cmp.Diff(before, w.facts(), cmp.AllowUnexported(fact{})); diff != "" {
					t.Errorf("adoption changes plans (-before +after):\n%s", diff)
				}
				w.quiet(time.Hour)
				if a := w.look(); a.Owner != inspect.OwnerSame || a.Result != planner.ClassNone || len(a.Objects) > 0 {
					t.Errorf("after adoption: %+v", a)
				}

				w.edit(func(c *provv1.Cluster) {
					c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"debug": true}
				})
				time.Sleep(3 * time.Minute)
				w.until("the edit", 10*time.Minute, w.ready(machines))
				for name, class := range happened(before, w.facts()) {
					if class != planner.ClassRestart {
						t.Errorf("%s: the edit is %s", name, class)
					}
				}
				w.disrupted(disruptions.Counts{disruption.EditConfiguration: machines})
				after := w.state(uid)
				maps.DeleteFunc(after, func(key, _ string) bool { _, was := uids[key]; return !was })
				if diff := cmp.Diff(uids, after); diff != "" {
					t.Errorf("objects were created again (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// A cluster moves from one Drover to another and back without any effect on its machines.
func TestStory_HandedFromDroverToDrover(t *testing.T) {
	tell(t, func(w *world) {
		w.made(1, 1)
		w.foreign()
		before := w.facts()
		a := w.look()
		if a.Owner != inspect.OwnerOther || a.Mark != "theirs" || a.Result != planner.ClassNone ||
			len(a.Takeover.Marks) > 0 {
			t.Errorf("%+v", a)
		}
		if diff := cmp.Diff([]string{copyOfMark(w)}, lines(a.Objects)); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		for _, from := range []string{"", "rancher", "test"} {
			if err := adopt.Check(a, w.limits(from)); err == nil || !strings.Contains(err.Error(), "--from theirs") {
				t.Errorf("--from %q: %v", from, err)
			}
		}
		w.released("theirs")
		time.Sleep(10 * time.Minute) // Drover does not adopt it by itself
		if a = w.look(); a.Owner != inspect.OwnerReleased || a.Mark != "theirs" {
			t.Errorf("%+v", a)
		}
		if err := w.take(stale(a), w.limits("")); err == nil || !strings.Contains(err.Error(), "has changed since") {
			t.Errorf("an outdated report: %v", err)
		}
		check(t, w.take(a, w.limits("")))
		time.Sleep(time.Minute)
		w.until("the adopted cluster", time.Minute, w.ready(2))
		w.quiet(time.Hour)
		if diff := cmp.Diff(before, w.facts(), cmp.AllowUnexported(fact{})); diff != "" {
			t.Errorf("plans (-before +after):\n%s", diff)
		}
		w.released("test")
		w.quiet(time.Hour)
	})
}

// copyOfMark is the change that another mark causes when nothing else differs: the management cluster has a copy of it.
func copyOfMark(w *world) string {
	w.Helper()
	cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
	check(w.T, err)
	return "Update Cluster.management.cattle.io /" + cluster.Status.ClusterName +
		" metadata.annotations[drover.io/instance] metadata.annotations[objectset.rio.cattle.io/*]"
}

func stale(a inspect.Adoption) inspect.Adoption {
	a.ResourceVersion = "1"
	return a
}

// released releases the cluster of an instance.
func (w *world) released(instance string) {
	w.Helper()
	cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
	check(w.T, err)
	check(w.T, w.as(func(c *clients.Clients) error {
		got, err := adopt.Release(c, cluster, true)
		if got != instance {
			w.Errorf("the released-by annotation is %q", got)
		}
		return err
	}))
}

// Another registry changes the plans: adoption lists the machines that would restart, and needs permission to do it.
func TestStory_AdoptionThatRestartsIsAskedFor(t *testing.T) {
	tell(t, func(w *world) {
		w.made(1, 1)
		w.registry = "registry.example.com"
		w.foreign()
		a := w.look()
		if a.Result != planner.ClassRestart {
			t.Fatalf("%+v", a)
		}
		limits := w.limits("theirs")
		if err := w.take(a, limits); err == nil || !strings.Contains(err.Error(), "--allow-restart") {
			t.Errorf("%v", err)
		}
		before := w.facts()
		limits.AllowRestart = true
		check(t, w.take(a, limits))
		time.Sleep(5 * time.Minute)
		w.until("the adopted cluster", 5*time.Minute, w.ready(2))
		want := map[string]planner.Class{}
		for _, m := range a.Machines {
			want[m.Name] = m.Class
		}
		if diff := cmp.Diff(want, happened(before, w.facts())); diff != "" {
			t.Errorf("(-reported +happened):\n%s", diff)
		}
		w.disrupted(disruptions.Counts{disruption.EditSettings: 2})
	})
}

// A pool whose template differs from Drover's gets new machines: adoption needs permission for it.
func TestStory_AdoptionThatReplacesIsAskedFor(t *testing.T) {
	tell(t, func(w *world) {
		w.made(1, 1)
		configs := w.live.Resource(schema.GroupVersionResource{Group: "rke-machine-config.cattle.io", Version: "v1",
			Resource: "digitaloceanconfigs"}).Namespace(fleet)
		config, err := configs.Get(t.Context(), demo+"-worker", metav1.GetOptions{})
		check(t, err)
		config.Object["size"] = "s-2vcpu-2gb"
		_, err = configs.Update(t.Context(), config, metav1.UpdateOptions{})
		check(t, err)
		w.foreign()
		a := w.look()
		classes := map[string]planner.Class{}
		for _, m := range a.Machines {
			classes[m.Pool] = m.Class
		}
		if diff := cmp.Diff(map[string]planner.Class{"server": planner.ClassNone, "worker": planner.ClassReplace},
			classes); diff != "" || a.Result != planner.ClassReplace {
			t.Errorf("%s (-want +got):\n%s", a.Result, diff)
		}
		var fields []string
		for _, object := range a.Objects {
			for _, field := range object.Fields {
				fields = append(fields, fmt.Sprintf("%s %s %s %s", object.Verb, object.Kind, field.Field, field.Class))
			}
			if len(object.Fields) == 0 {
				fields = append(fields, fmt.Sprintf("%s %s %s", object.Verb, object.Kind, object.Class))
			}
		}
		slices.Sort(fields)
		want := []string{
			"Create DigitaloceanMachineTemplate None",
			"Update Cluster.management.cattle.io metadata.annotations[drover.io/instance] None",
			"Update Cluster.management.cattle.io metadata.annotations[objectset.rio.cattle.io/*] None",
			"Update MachineDeployment metadata.annotations[objectset.rio.cattle.io/*] None",
			"Update MachineDeployment spec.template.spec.infrastructureRef.name Replace",
		}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		limits := w.limits("theirs")
		limits.AllowRestart = true
		if err := adopt.Check(a, limits); err == nil || !strings.Contains(err.Error(), "--allow-replace") {
			t.Errorf("%v", err)
		}
	})
}
