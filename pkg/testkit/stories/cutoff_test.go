package stories

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// wantNothing fails if any object of the cluster is left.
func (s *story) wantNothing() {
	s.t.Helper()
	if left := s.children(); len(left) > 0 || s.read() != nil {
		s.t.Errorf("remaining objects: %v, the cluster: %v", left, s.read() != nil)
	}
	if configs := s.api.Objects(kubeschema.GroupVersionKind{Group: clients.MachineConfigGroup, Version: "v1",
		Kind: "PodConfig"}); len(configs) > 1 {
		s.t.Errorf("remaining objects: %v", configs)
	}
}

// TestCluster_CutOffWhileItIsMadeAndThenDeleted: a partly created cluster can be deleted. Cluster API never saw some of
// these clusters, so Drover must delete their objects itself.
func TestCluster_CutOffWhileItIsMadeAndThenDeleted(t *testing.T) {
	for _, n := range crashpoints.Of(t, 24, 24) {
		for _, order := range []string{"deleted while Drover is down", "deleted after the restart"} {
			t.Run(fmt.Sprintf("after write %d, %s", n, order), func(t *testing.T) {
				tell(t, func(s *story) {
					s.api.CutAfter(agent, n, nil)
					s.add(podSchema(), machineConfig("nc"), demo())
					pass(time.Minute)
					if order == "deleted while Drover is down" {
						s.delete()
						s.restart()
					} else {
						s.restart()
						s.delete()
					}
					s.settle()
					s.wantNothing()
				})
			})
		}
	}
}

// TestCluster_RefusedByClusterAPIAndThenDeletedWhereverTheProcessIsKilled: Drover never creates the object whose
// deletion would delete all others.
func TestCluster_RefusedByClusterAPIAndThenDeletedWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, func(s *story) {
		s.t.Helper()
		s.api.Intercept(func(r memkube.Request) error {
			if strings.HasPrefix(r.Agent, agent) && r.Verb == "create" &&
				r.Resource.GroupResource() == clustersGVR.GroupResource() {
				return apierrors.NewForbidden(r.Resource.GroupResource(), "demo", errors.New("no more clusters today"))
			}
			return nil
		})
		drivers(s)
	}, func(s *story) {
		s.t.Helper()
		s.add(demo())
		pass(5 * time.Minute)
		if len(s.api.Objects(controlGVR.GroupVersion().WithKind("RKEControlPlane"))) == 0 {
			s.t.Fatal("the story needs a control plane without a Cluster API cluster")
		}
		s.delete()
		s.settle()
		s.wantNothing()
	})
}
