package machineprovision

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// kept is a back-off with a clock.
type kept struct {
	backoff
	now time.Time
}

func newKept() *kept { return &kept{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// one returns a machine of a pool.
func one(namespace, pool, template string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetNamespace(namespace)
	obj.SetLabels(map[string]string{clusterv1.MachineDeploymentNameLabel: pool, clusterv1.ClusterNameLabel: "cluster"})
	obj.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: template})
	return obj
}

var (
	hasFailed = rkev1.RKEMachineStatus{FailureReason: rkev1.ReasonCreateError}
	isMade    = rkev1.RKEMachineStatus{
		Conditions: []rkev1.GenericCondition{{Type: rkev1.ConditionCreateJob, Status: rkev1.ConditionTrue}}}
)

// became notes a machine's change from one status to another.
func (k *kept) became(obj *unstructured.Unstructured, before, after rkev1.RKEMachineStatus) {
	k.note(obj, machinejob.Snapshot{Now: k.now, Machine: machinejob.Machine{Status: before}},
		machinejob.Decision{Status: after})
}

func (k *kept) fails(obj *unstructured.Unstructured, times int) {
	for range times {
		k.became(obj, rkev1.RKEMachineStatus{}, hasFailed)
	}
}

func (k *kept) expect(t *testing.T, moment string, obj *unstructured.Unstructured, count int, wait time.Duration) {
	t.Helper()
	got := k.of(obj, nil)
	if left := got.turn.Sub(k.now); count > 0 && left != wait || got.count != count {
		t.Errorf("%s: %d failures, the next attempt in %s; want %d, %s", moment, got.count, left, count, wait)
	}
}

func TestBackoff_CountsFailuresPerPoolAndTemplate(t *testing.T) {
	k, small, big, other := newKept(), one("ns", "pool", "small"), one("ns", "pool", "big"), one("ns", "other", "small")
	k.fails(small, 1)
	k.expect(t, "a machine fails", small, 1, 0)
	k.became(small, hasFailed, hasFailed)
	k.expect(t, "the failed machine is reconciled again", small, 1, 0)
	k.fails(small, 1)
	k.expect(t, "the next machine fails", small, 2, firstDelay)
	k.expect(t, "a machine of another pool", other, 0, 0)
	k.expect(t, "the first machine of another template", big, 0, 0)
	k.became(small, isMade, isMade)
	k.expect(t, "a machine that was created before is reconciled", small, 2, firstDelay)
	k.fails(big, 1)
	k.expect(t, "the other template fails, too", big, 1, 0)
	k.became(big, rkev1.RKEMachineStatus{}, isMade)
	k.expect(t, "a machine of the other template is created", big, 0, 0)
	k.expect(t, "the failures of the old template are forgotten", small, 0, 0)
	k.became(small, hasFailed, hasFailed)
	k.expect(t, "a machine that failed before is reconciled", small, 0, 0)
}

func TestBackoff_DelayGrowsWithFailures(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 0, 2: 10 * time.Second, 3: 20 * time.Second,
		6: 160 * time.Second, 8: 10 * time.Minute, 500: 10 * time.Minute} {
		k, obj := newKept(), one("ns", "pool", "t")
		k.fails(obj, failures)
		k.expect(t, "alone", obj, failures, want)
	}
}

func TestBackoff_NewCredentialIsTriedAtOnce(t *testing.T) {
	k := newKept()
	wrong, right := map[string][]byte{"token": []byte("wrong")}, map[string][]byte{"token": []byte("right")}
	var machines []*unstructured.Unstructured
	for i := range 5 {
		obj := one("ns", "pool", "t")
		obj.SetUID(types.UID(strconv.Itoa(i)))
		k.note(obj, machinejob.Snapshot{Now: k.now, Credential: wrong},
			machinejob.Decision{Status: rkev1.RKEMachineStatus{JobName: "job"}})
		machines = append(machines, obj)
	}
	for _, obj := range machines { // the credential was corrected while they were created
		k.note(obj, machinejob.Snapshot{Now: k.now, Credential: right}, machinejob.Decision{Status: hasFailed})
	}
	if count := k.of(machines[0], wrong).count; count != 5 {
		t.Errorf("with the credential that failed: %d failures", count)
	}
	if count := k.of(machines[0], right).count; count != 0 {
		t.Errorf("with another credential: %d failures", count)
	}
	if len(k.started) > 0 {
		t.Errorf("stored for created machines: %v", k.started)
	}
}

// A credential or template that changes repeatedly is forgotten after a while, and takes one turn.
func TestBackoff_CountsTheLastCredentials(t *testing.T) {
	k, obj := newKept(), one("ns", "pool", "t")
	for i := range 100 {
		k.now = k.now.Add(time.Millisecond)
		k.note(obj, machinejob.Snapshot{Now: k.now, Credential: map[string][]byte{"token": []byte(strconv.Itoa(i))}},
			machinejob.Decision{Status: hasFailed})
	}
	if kept := len(k.failed[poolOf(obj)]); kept != keptWays {
		t.Errorf("%d credentials are stored, want %d", kept, keptWays)
	}
	other := one("ns", "other", "t")
	k.fails(other, 1)
	k.expect(t, "another pool", other, 1, perPool)
}

// Failures belong to a Cluster: a recreated one starts without them, and no pool waits for the turns of a deleted one.
func TestBackoff_ForgetsDeletedClusters(t *testing.T) {
	k, uid := newKept(), types.UID("first")
	k.clusterUID = func(string, string) types.UID { return uid }
	gone := one("ns", "pool", "t")
	k.fails(gone, 5)
	if count := k.of(gone, nil).count; count != 5 {
		t.Fatalf("%d failures", count)
	}
	uid = "second"
	if count := k.of(gone, nil).count; count != 0 {
		t.Errorf("the cluster is created again: %d failures", count)
	}
	if k.fails(one("ns", "other", "t"), 1); len(k.failed) != 1 {
		t.Errorf("stored: %v", k.failed)
	}
}

func TestBackoff_PoolsOfANamespaceTakeTurns(t *testing.T) {
	k := newKept()
	chronic := func(i int) *unstructured.Unstructured { return one("ns", fmt.Sprint("chronic", i), "t") }
	for i := range 100 {
		k.fails(chronic(i), 9)
	}
	for i := range 100 {
		k.expect(t, "after ten minutes, one after the other", chronic(i), 9, maxDelay+time.Duration(i)*perPool)
	}
	first, second := one("ns", "first", "t"), one("ns", "second", "t")
	k.fails(first, 1)
	k.expect(t, "a first failure among pools that always fail", first, 1, 0)
	k.fails(second, 1)
	k.expect(t, "another first failure", second, 1, perPool)
	k.fails(second, 1)
	k.expect(t, "a second failure", second, 2, firstDelay)
	foreign := one("ns-2", "pool", "t")
	k.fails(foreign, 3)
	k.expect(t, "in another namespace", foreign, 3, 2*firstDelay)
	k.now = k.now.Add(forgotten + time.Second)
	if k.fails(foreign, 1); len(k.failed) != 1 {
		t.Errorf("stored for pools without failures for a day: %v", k.failed)
	}
}

// After a hundred pools have failed, each one that recovers brings forward the turns of two others.
func TestBackoff_RecoveryBringsOthersForward(t *testing.T) {
	const pools = 100
	k := newKept()
	left := map[int]bool{}
	for i := range pools {
		k.fails(one("ns", strconv.Itoa(i), "t"), 9)
		left[i] = true
	}
	foreign := one("ns-2", "pool", "t")
	k.fails(foreign, 9)
	k.now = k.now.Add(maxDelay)
	tried := 0
	for range 7 {
		var due []*unstructured.Unstructured
		for _, i := range slices.Sorted(maps.Keys(left)) {
			obj := one("ns", strconv.Itoa(i), "t")
			if turn := k.of(obj, nil).turn; !turn.After(k.now) {
				due = append(due, obj)
				delete(left, i)
			}
		}
		if len(due) > 2*tried+1 {
			t.Errorf("%d pools are tried when %d have recovered", len(due), tried)
		}
		for _, obj := range due {
			k.became(obj, rkev1.RKEMachineStatus{}, isMade)
		}
		tried += len(due)
	}
	if len(left) > 0 {
		t.Errorf("%d of %d pools have not been tried", len(left), pools)
	}
	k.fails(foreign, 1)
	k.expect(t, "another namespace is not affected", foreign, 10, maxDelay)
}

// However many pools of a namespace fail, at most two are tried in half a minute: one with a single failure and one
// with more.
func TestBackoff_LimitsAttemptsOfManyFailingPools(t *testing.T) {
	const pools, took = 1000, 5 * time.Second
	k, start := newKept(), time.Time{}
	next := make([]time.Time, pools)
	for i := range next {
		next[i] = k.now.Add(time.Duration(i) * 10 * time.Millisecond) // all are created in ten seconds
	}
	start = k.now.Add(time.Minute)
	var tries []time.Time
	for range 4 * pools {
		i := slices.Index(next, slices.MinFunc(next, time.Time.Compare))
		tries = append(tries, next[i])
		k.now = next[i].Add(took)
		obj := one("ns", strconv.Itoa(i), "t")
		k.fails(obj, 1)
		next[i] = k.of(obj, nil).turn
	}
	tries = slices.DeleteFunc(tries, func(at time.Time) bool { return at.Before(start) })
	slices.SortFunc(tries, time.Time.Compare)
	for i := range tries[2:] {
		if within := tries[i+2].Sub(tries[i]); within < perPool-took {
			t.Fatalf("three attempts in %s, %s after the start", within, tries[i].Sub(start))
		}
	}
}
