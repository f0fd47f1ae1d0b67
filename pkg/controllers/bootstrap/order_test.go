package bootstrap

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestLeaver_OneCanLeaveWhileAnotherKeepsTheData: in any combination of states, a member can leave as long as
// another keeps the data, at the latest after joined machines have moved.
func TestLeaver_OneCanLeaveWhileAnotherKeepsTheData(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		kept := rapid.Bool().Draw(r, "a working member stays")
		leavers := drawLeavers(r, kept)
		for len(leavers) > 0 {
			next := slices.IndexFunc(leavers, func(l leaver) bool { return mayGo(l, leavers, kept) })
			switch {
			case next >= 0:
				leavers = slices.Delete(leavers, next, next+1)
			case slices.ContainsFunc(leavers, func(l leaver) bool { return l.waits }):
				for i := range leavers { // the planner moves the joined machines
					leavers[i].joined, leavers[i].waits = false, false
				}
			case kept || len(leavers) > 1 && slices.ContainsFunc(leavers, func(l leaver) bool { return l.works }):
				r.Fatalf("no member can leave of %+v", leavers)
			default:
				return // only the last is left, or none is known to work
			}
		}
		if !kept {
			r.Fatal("the last member left")
		}
	})
}

// TestLeaver_OrderIsStrict: the order is strict and total.
func TestLeaver_OrderIsStrict(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		leavers := drawLeavers(r, rapid.Bool().Draw(r, "kept"))
		for i, a := range leavers {
			for j, b := range leavers {
				if i != j && a.before(b) == b.before(a) || i == j && a.before(b) {
					r.Fatalf("%+v and %+v", a, b)
				}
				for _, c := range leavers {
					if a.before(b) && b.before(c) && !a.before(c) {
						r.Fatalf("%+v, %+v and %+v", a, b, c)
					}
				}
			}
		}
	})
}

// mayGo applies the order as the hook does.
func mayGo(l leaver, leavers []leaver, kept bool) bool {
	for _, other := range leavers {
		if other.machine != l.machine && other.before(l) {
			return false
		}
		kept = kept || other.machine != l.machine && other.works
	}
	return kept && !l.waits
}

// drawLeavers draws deleted machines. For at most one, only the bootstrap object is deleted.
func drawLeavers(r *rapid.T, kept bool) []leaver {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var out []leaver
	for i := range rapid.IntRange(1, 5).Draw(r, "leavers") {
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", i)}}
		if i > 0 || rapid.Bool().Draw(r, "the machine is deleted") {
			machine.DeletionTimestamp = &metav1.Time{
				Time: start.Add(time.Duration(rapid.IntRange(0, 2).Draw(r, "at")) * time.Second)}
		}
		out = append(out, newLeaver(machine, rapid.Bool().Draw(r, "broken"), rapid.Bool().Draw(r, "works"),
			rapid.Bool().Draw(r, "joined"), kept))
	}
	return out
}
