package stories

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
)

// passes counts the runs of the handlers of Clusters.
type passes struct {
	mu   sync.Mutex
	runs map[string]int
	// runsThen and writesThen are the runs and the writes when condition RKECluster became True for the first time.
	runsThen   map[string]int
	writesThen int
}

// counted is the controller of Clusters. It counts the runs of its handlers.
type counted struct {
	provcontrollers.ClusterController
	s *story
}

// OnChange registers a handler.
func (c counted) OnChange(ctx context.Context, name string, handle generic.ObjectHandler[*provv1.Cluster]) {
	c.ClusterController.OnChange(ctx, name, func(key string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
		after, err := handle(key, cluster)
		c.s.ran(name, after)
		return after, err
	})
}

func (s *story) ran(name string, after *provv1.Cluster) {
	p := &s.passes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[string]int{}
	}
	p.runs[name]++
	if p.runsThen == nil && after != nil && conditions.IsTrue(after.Status.Conditions, "RKECluster") {
		p.runsThen, p.writesThen = maps.Clone(p.runs), s.api.Written(agent)
	}
}

// counts returns the runs of the handlers and the writes since the last call.
func (s *story) counts() (runs map[string]int, writes int) {
	s.passes.mu.Lock()
	defer s.passes.mu.Unlock()
	runs, writes = s.passes.runs, s.api.Written(agent)
	s.passes.runs = nil
	s.api.ResetLog()
	return runs, writes
}

// TestCluster_IsTranslatedInOnePass counts the runs of handlers and the writes from the creation of a Cluster until its
// Cluster API objects exist, until it settles, and until it is deleted.
func TestCluster_IsTranslatedInOnePass(t *testing.T) {
	told(t, func(s *story) {
		drivers(s)
		s.counts()
		s.add(demo())
		s.settle()
		runs, writes := s.counts()
		then := s.passes.runsThen
		t.Logf("translated after %v runs and %d writes", then, s.passes.writesThen)
		t.Logf("settled after %v runs and %d writes", runs, writes)
		if then["rke-cluster"] != 1 || then["cluster-create"] != 0 {
			t.Errorf("translated after %v runs of the handlers", then)
		}
		pass(time.Hour)
		if runs, writes := s.counts(); writes > 0 {
			t.Errorf("a settled cluster was written to %d times in %v runs", writes, runs)
		}
		s.delete()
		s.settle()
		runs, writes = s.counts()
		t.Logf("deleted after %v runs and %d writes", runs, writes)
	})
}

// TestCluster_RefusedIsClaimedInOnePass: a refused Cluster is claimed and reported with two writes, and nothing is made
// for it.
func TestCluster_RefusedIsClaimedInOnePass(t *testing.T) {
	told(t, func(s *story) {
		drivers(s)
		s.counts()
		s.add(demo(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "" }))
		s.settle()
		runs, writes := s.counts()
		t.Logf("refused after %v runs and %d writes", runs, writes)
		if writes != 2 {
			t.Errorf("%d writes", writes)
		}
	})
}
