package planner_test

import (
	"encoding/base64"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// plans returns the plans of all machines, byte for byte.
func (s *story) plans() map[string]string {
	s.Helper()
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		out[name] = string(secret.Data[nodeplan.KeyPlan])
	}
	return out
}

// nextVersions returns the render versions of a newer program, with one that adds a file to every machine.
func nextVersions() render.Versions {
	return render.Versions{}.With("next", func(_ render.Input, files []plan.File) []plan.File {
		return append(files, plan.File{Path: "/etc/next", Content: base64.StdEncoding.EncodeToString([]byte("next"))})
	})
}

// A new manager, or the old one again, writes nothing to a settled cluster; a command moves its machines, and counts as
// a command.
func TestStory_AManagerUpgradeChangesNothingUntilACommandDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "v1.36.2+rke2r1", topologies["three RKE2 servers, 2 worker"].roles)
		stop := s.startManager()
		s.untilReady()
		s.agentsPass()
		s.elapse(time.Minute)
		before := s.plans()
		newer := nextVersions()
		for _, versions := range []render.Versions{newer, {}, newer} {
			stop()
			s.versions = versions
			s.api.ResetLog()
			stop = s.startManager()
			s.elapse(10 * time.Minute)
			if writes := s.api.Writes(manager); len(writes) > 0 {
				t.Errorf("a manager with the versions %v writes %v", versions.Names(), writes)
			}
		}
		if diff := cmp.Diff(before, s.plans()); diff != "" {
			t.Errorf("plans have changed (-before +after):\n%s", diff)
		}

		asked, err := s.world.Provisioning.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(t, err)
		asked.Annotations[rkev1.RollAnnotation] = "next"
		_, err = s.world.Provisioning.Cluster().Update(asked)
		must(t, err)
		for range 60 {
			synctest.Wait()
			if busy := s.outOfSync(); len(busy) > 1 {
				t.Fatalf("%v change at the same time", busy)
			}
			s.elapse(5 * time.Second)
			s.agentsPass()
		}
		if !s.ready() {
			t.Errorf("the cluster is not ready: %+v", s.controlPlane().Status.Conditions)
		}
		for name, after := range s.plans() {
			machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
			must(t, err)
			if after == before[name] || machine.Annotations[rkev1.RenderVersionAnnotation] != "next" {
				t.Errorf("%s has not moved, it is pinned to %q", name,
					machine.Annotations[rkev1.RenderVersionAnnotation])
			}
		}
		counts, err := disruptions.Gathered(s.metrics)
		must(t, err)
		if got := counts[disruption.CommandRoll]; got != len(s.roles) {
			t.Errorf("%d disruptions by the command are counted, want %d", got, len(s.roles))
		}
		stop()
	})
}
