package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/record"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/observe/events"
)

// told returns the Events that Drover has recorded, with their counts.
func (w *world) told() map[string]int64 {
	w.Helper()
	out := map[string]int64{}
	for _, event := range w.api.Objects(corev1.SchemeGroupVersion.WithKind("Event")) {
		if source, _, _ := unstructured.NestedString(event.Object, "source", "component"); source != component {
			continue
		}
		kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind")
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		count, _, _ := unstructured.NestedInt64(event.Object, "count")
		out[kind+" "+reason] += count
		if text := fmt.Sprint(event.Object); strings.Contains(text, "top-secret") {
			w.Errorf("an event contains a secret: %s", text)
		}
	}
	return out
}

// Events describe the life of a cluster. A new process does not repeat old ones, and a cluster at rest causes none.
func TestStory_EventsTellWhatHappened(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 2))
		w.until("the cluster", 5*time.Minute, w.ready(3))
		time.Sleep(time.Minute)
		want := map[string]int64{
			"Cluster SpecApplied": 1, "Cluster ClusterConnected": 1, "Cluster ClusterProgressing": 1,
			"Cluster ClusterReady":               1,
			"RKEControlPlane MachinesRegistered": 1, "RKEControlPlane Bootstrapped": 1,
			// one for all machines that take a step within half a minute
			"Cluster MachineCreated": 1, "Cluster HostCreated": 1, "Cluster PlanApplied": 1,
			"Cluster NodeRegistered": 1, "Cluster MachineReady": 1,
		}
		made := w.told()
		maps.DeleteFunc(made, func(key string, _ int64) bool { return strings.HasPrefix(key, "NodeDriver ") })
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("events of a new cluster (-want +got):\n%s", diff)
		}
		before := w.told()
		w.stop()
		w.start()
		time.Sleep(time.Minute)
		w.quiet(time.Hour)
		if diff := cmp.Diff(before, w.told()); diff != "" {
			t.Errorf("events of another process (-before +after):\n%s", diff)
		}
		w.edit(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.3+k3s1" })
		time.Sleep(10 * time.Minute)
		w.until("the upgrade", 5*time.Minute, w.ready(3))
		w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 1 })
		w.until("one machine fewer", 10*time.Minute, w.ready(2))
		time.Sleep(time.Minute)
		for _, reason := range []string{
			"Cluster UpgradeStarted", "Cluster UpgradeFinished", "Machine MachineRestarting",
			"Cluster MachineDeleting", "Cluster MachineRemoved", "Cluster HostDeleting",
		} {
			if w.told()[reason] <= before[reason] {
				t.Errorf("no event reports %s: %v", reason, w.told())
			}
		}
	})
}

// A new cluster with a refused spec has Events, because it is claimed.
func TestStory_EventsTellOfARefusedCluster(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, func() []provv1.RKEMachinePool { return []provv1.RKEMachinePool{w.pool("worker", "w", 2)} })
		time.Sleep(time.Minute)
		told := func() map[string]int64 {
			t.Helper()
			out := w.told()
			maps.DeleteFunc(out, func(key string, _ int64) bool { return !strings.HasPrefix(key, "Cluster ") })
			return out
		}
		if diff := cmp.Diff(map[string]int64{"Cluster SpecRefused": 1, "Cluster ClusterNotReady": 1},
			told()); diff != "" {
			t.Errorf("events of a refused cluster (-want +got):\n%s", diff)
		}
		w.quiet(time.Hour)
		w.edit(func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, w.pool("server", "ec", 1))
		})
		w.until("the cluster", 5*time.Minute, w.ready(3))
		if got := told(); got["Cluster SpecApplied"] != 1 || got["Cluster SpecRefused"] != 1 {
			t.Errorf("events of the corrected cluster: %v", got)
		}
	})
}

// A cluster that fails repeatedly fills neither its namespace nor the queue: similar Events are counted and combined,
// and each reason has its own limit.
func TestAnnouncer_LimitsEvents(t *testing.T) {
	tell(t, func(w *world) {
		s, err := New(Options{RESTConfig: w.api.Config("ignored"), InstanceID: "test", Version: "test",
			Settings: Settings{ServerURL: "https://drover.example.com"}, Registerer: w.metrics})
		check(t, err)
		defer s.every.Stop()
		a, stop, err := s.announce(s.every, lookup{s.every, "test"})
		check(t, err)
		object := corev1.ObjectReference{Kind: "Cluster", Namespace: fleet, Name: demo}
		_, err = w.user.Core.Namespace().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet}})
		check(t, err)
		for i := range 500 {
			a.tell([]events.Event{{Object: object, Type: "Warning", Reason: events.ReasonClusterNotReady,
				Message: fmt.Sprintf("failure %d", i%20)}})
			time.Sleep(time.Second / 2)
		}
		a.tell([]events.Event{{Object: object, Type: "Normal", Reason: events.ReasonClusterReady, Message: "ready"}})
		time.Sleep(time.Second)
		stop()
		got := w.told()
		if written := len(w.api.Writes(ours)); written > 20 {
			t.Errorf("%d requests for 500 failures", written)
		}
		if got["Cluster ClusterNotReady"] < 10 || got["Cluster ClusterReady"] != 1 {
			t.Errorf("the events are %v", got)
		}
	})
}

// A host receives Events through its own recorder.
func TestAnnouncer_UsesTheHostsRecorder(t *testing.T) {
	tell(t, func(w *world) {
		recorder := record.NewFakeRecorder(10)
		s, err := New(Options{
			RESTConfig: w.api.Config("ignored"), InstanceID: "test",
			Settings:   Settings{ServerURL: "https://drover.example.com"},
			Registerer: w.metrics, EventRecorder: recorder,
		})
		check(t, err)
		defer s.every.Stop()
		a, stop, err := s.announce(s.every, lookup{s.every, "test"})
		check(t, err)
		defer stop()
		a.tell([]events.Event{{Type: "Normal", Reason: events.ReasonClusterReady, Message: "ready"}})
		if got := <-recorder.Events; got != "Normal ClusterReady ready" {
			t.Error(got)
		}
		if slices.ContainsFunc(w.api.Objects(corev1.SchemeGroupVersion.WithKind("Event")),
			func(*unstructured.Unstructured) bool { return true }) {
			t.Error("an event bypasses the host's recorder")
		}
	})
}
