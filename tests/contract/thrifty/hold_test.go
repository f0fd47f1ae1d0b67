package thrifty

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// window is less than the time for which the core holds a status back.
const window = 2500 * time.Millisecond

// expectNoWait expects that nothing has waited until a held status was written. Old Machines are deleted soon after a
// new one is available, and the status of a deleted Machine is written soon.
func expectNoWait(t *testing.T, namespace string, since time.Time) {
	t.Helper()
	statuses := map[string][]time.Time{}
	for _, write := range plane.Writes(t, coreAgent, since) {
		if write.Namespace == namespace && write.Resource == "machines" && write.Subresource == "status" &&
			write.Code < 300 {
			statuses[write.Name] = append(statuses[write.Name], write.Time)
		}
	}
	for _, write := range plane.Writes(t, coreAgent, since) {
		if write.Verb != "delete" || write.Resource != "machines" || write.Namespace != namespace || write.Code >= 300 {
			continue
		}
		before, after := time.Hour, time.Hour
		for name, times := range statuses {
			for _, at := range times {
				if gap := write.Time.Sub(at); gap >= 0 && name != write.Name {
					before = min(before, gap)
				}
				if gap := at.Sub(write.Time); gap >= 0 && name == write.Name {
					after = min(after, gap)
				}
			}
		}
		t.Logf("Machine %s was deleted %s after the last status of another one, and has its own after %s", write.Name,
			before, after)
		if before > window || after > window {
			t.Errorf("Machine %s: the deletion or its status has waited for a held status", write.Name)
		}
	}
}

// killed refuses all writes of the core from a moment on, and counts those of statuses.
type killed struct {
	dead atomic.Bool
	lost atomic.Int64
}

var errKilled = errors.New("the process was killed")

func (k *killed) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if !k.dead.Load() || request.Method == http.MethodGet || !strings.Contains(request.UserAgent(), coreAgent) {
			return next.RoundTrip(request)
		}
		if strings.HasSuffix(request.URL.Path, "/status") {
			k.lost.Add(1)
		}
		return nil, errKilled
	})
}

// kill kills the core while it holds statuses of new Machines. The next one computes them again.
func kill(t *testing.T) {
	k := &killed{}
	first := stage.Start(t, stage.Settings{CoreWrites: server.CoreWritesThrifty, Transport: k.transport})
	clusters := first.Apply(plane.Namespace(t), 3, map[string]string{"demo": stage.K3s})
	plane.Until(t, time.Minute, func() string {
		if len(machinesOf(t, first, clusters.Namespace)) < 3 {
			return "Machines"
		}
		return ""
	})
	k.dead.Store(true)
	plane.Until(t, time.Minute, func() string {
		if k.lost.Load() == 0 {
			return "a status that is not written"
		}
		return ""
	})
	first.End()

	second := stage.Start(t, stage.Settings{CoreWrites: server.CoreWritesThrifty, World: first.World})
	clusters = clusters.On(second)
	clusters.AwaitReady()
	plane.Until(t, time.Minute, func() string { return incomplete(t, second, clusters.Namespace) })
	clusters.Delete()
}

// incomplete returns what the statuses of running Machines and their owners lack, or "".
func incomplete(t *testing.T, st *stage.Stage, namespace string) string {
	t.Helper()
	list, sets, deployments := &clusterv1.MachineList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineDeploymentList{}
	for _, into := range []client.ObjectList{list, sets, deployments} {
		if err := st.Client.List(t.Context(), into, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
	}
	for _, m := range list.Items {
		for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition,
			clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition,
			clusterv1.MachineUpToDateCondition} {
			if !conditions.IsTrueMeta(m.Status.Conditions, kind) {
				return m.Name + " " + kind
			}
		}
		if !conditions.IsFalseMeta(m.Status.Conditions, clusterv1.PausedCondition) ||
			!ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false) {
			return m.Name + " is not complete"
		}
	}
	for _, s := range sets.Items {
		if want := ptr.Deref(s.Spec.Replicas, 0); ptr.Deref(s.Status.Replicas, -1) != want ||
			ptr.Deref(s.Status.AvailableReplicas, -1) != want || ptr.Deref(s.Status.UpToDateReplicas, -1) != want {
			return "numbers of " + s.Name
		}
	}
	for _, d := range deployments.Items {
		if want := ptr.Deref(d.Spec.Replicas, 0); ptr.Deref(d.Status.AvailableReplicas, -1) != want ||
			ptr.Deref(d.Status.ReadyReplicas, -1) != want || d.Status.ObservedGeneration != d.Generation ||
			!rests(d.Status.Conditions) {
			return "status of " + d.Name
		}
	}
	return ""
}

func rests(of []metav1.Condition) bool {
	return conditions.IsTrueMeta(of, clusterv1.MachineDeploymentAvailableCondition) &&
		conditions.IsFalseMeta(of, clusterv1.MachineDeploymentRollingOutCondition)
}
