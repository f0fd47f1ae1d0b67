package cmd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// replicaOf runs the leases of a replica of an instance.
func replicaOf(t *testing.T, api *memkube.Server, instance string) (stop func()) {
	t.Helper()
	log, _ := test.NewNullLogger()
	config := api.Config(instance)
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		newReplicas(client.CoordinationV1().Leases(leaseNamespace), uuid.NewString(), instance, log).run(ctx)
	})
	running.Go(func() {
		check(t, leadWhileHolding(ctx, config, instance, log, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}))
	})
	settle(time.Minute)
	return func() { cancel(); running.Wait(); settle(time.Minute) }
}

// A user can hand a cluster from one Drover to another in the same management cluster. Only one Drover leads, so the
// user must stop the first before the second can adopt.
func TestAdopt_HandsOverToALeadingDrover(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := theirs(t, "a", "a", "b")
		expect := func(when, refused string, args ...string) {
			t.Helper()
			code, out, problems := look(t, api, append([]string{"adopt", "demo", "--yes"}, args...)...)
			if (code != 0) != (refused != "") || !strings.Contains(problems, refused) {
				t.Errorf("%s: exit code %d, want %q:\n%s%s", when, code, refused, out, problems)
			}
		}
		stopA := replicaOf(t, api, "a")
		stopB := replicaOf(t, api, "b")
		expect("the current instance leads", `instance "a" of Drover leads here`, "--to", "b", "--from", "a")
		stopA()
		stopA = replicaOf(t, api, "a")
		expect("the current instance waits", `instance "a" of Drover, which has the cluster, runs here`, "--to", "b",
			"--from", "a")
		stopB()
		expect("the current instance leads again, and releases it", "", "--release")
		expect("the former instance leads", "no Drover would manage the cluster", "--to", "b")
		if mark, ok := theirCluster(t, api).Annotations[rkev1.InstanceAnnotation]; ok {
			t.Errorf("it has the mark of %q", mark)
		}
		stopA()
		expect("no replica leads", "", "--to", "b")
		if mark := theirCluster(t, api).Annotations[rkev1.InstanceAnnotation]; mark != "b" {
			t.Errorf("it has the mark of %q", mark)
		}
	})
}

// The Drover that begins work must end it. If that Drover is gone, another continues the work only with the user's
// permission.
func TestAdopt_NamesWorkOfAnotherDrover(t *testing.T) {
	for name, tc := range map[string]struct {
		mark, from string
		args       []string
		// released are the annotations of a cluster without a manager.
		released map[string]string
		refused  string
	}{
		"another Drover": {mark: "a", from: "a",
			refused: `instance "a" works on it: an operation runs: etcd restore`},
		"another Drover, which has ended": {mark: "a", from: "a", args: []string{"--allow-under-way"}},
		"a restored backup": {mark: "a", from: "a", released: map[string]string{rkev1.ReleasedByAnnotation: "a"},
			refused: `work on it was under way when it was backed up or released: an operation runs: etcd restore`},
		"a restored backup with unfinished work": {mark: "a", from: "a",
			released: map[string]string{rkev1.ReleasedByAnnotation: "a"}, args: []string{"--allow-under-way"}},
		"Rancher": {from: "rancher"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := theirs(t, tc.mark, "b")
				if tc.released != nil {
					cluster := theirCluster(t, api)
					cluster.TypeMeta = metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"}
					cluster.Annotations = tc.released
					check(t, api.Add(cluster))
				}
				controlPlane := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace,
					Name: "demo"}}
				if found, err := api.Get(controlPlane); err != nil || !found {
					t.Fatal(err)
				}
				controlPlane.TypeMeta = metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane"}
				controlPlane.Status.Conditions = []rkev1.GenericCondition{{Type: planner.ConditionSnapshotRestored,
					Status: rkev1.ConditionUnknown}}
				check(t, api.Add(controlPlane))
				code, out, problems := look(t, api, append([]string{"adopt", "demo", "--yes", "--from", tc.from},
					tc.args...)...)
				if (code != 0) != (tc.refused != "") || !strings.Contains(problems, tc.refused) ||
					!strings.Contains(out, tc.refused) {
					t.Errorf("exit code %d, want %q:\n%s%s", code, tc.refused, out, problems)
				}
			})
		})
	}
}
