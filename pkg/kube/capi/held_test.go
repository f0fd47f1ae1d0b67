package capi

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// TestThrifty_LifeOfAClusterWaitsForNoHeldStatus: with a window of a day, a pool grows, is rolled out, shrinks and is
// deleted within minutes. Whatever waits for a status that is held would wait for a day.
func TestThrifty_LifeOfAClusterWaitsForNoHeldStatus(t *testing.T) {
	crashpoints.SkipRaced(t)
	inVirtualTime(t, func(t *testing.T) {
		api := newPlane(t)
		if err := api.Add(template(clusterv1.GroupVersionInfrastructure.String(), "HostTemplate", "large"),
			pool()); err != nil {
			t.Fatal(err)
		}
		end := startCore(t, api.Config("ignored"), 24*time.Hour)
		user := userOf(t, api)
		steps := []struct {
			name   string
			change func(*clusterv1.MachineDeployment)
			hosts  map[string]int
		}{
			{"a new pool", nil, map[string]int{"small": 3}},
			{"a larger pool", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(5)) },
				map[string]int{"small": 5}},
			{"a rollout", func(d *clusterv1.MachineDeployment) {
				d.Spec.Template.Spec.InfrastructureRef.Name = "large"
			}, map[string]int{"large": 5}},
			{"a smaller pool", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(1)) },
				map[string]int{"large": 1}},
		}
		for _, step := range steps {
			if step.change != nil {
				edit(t, user, step.change)
			}
			time.Sleep(5 * time.Minute)
			if diff := cmp.Diff(step.hosts, hostsOfPool(api)); diff != "" {
				t.Errorf("%s: hosts by template (-want +got):\n%s", step.name, diff)
			}
		}
		deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "pool"}}
		if err := user.Delete(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if left := hostsOfPool(api); len(left) > 0 {
			t.Errorf("hosts of the deleted pool: %v", left)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// TestThrifty_KilledWithHeldStatuses kills the core after each of some writes. The next core computes what was held:
// the statuses end as without a kill.
func TestThrifty_KilledWithHeldStatuses(t *testing.T) {
	var want []string
	crashpoints.Each(t, 8, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inVirtualTime(t, func(t *testing.T) {
			api, agent := newPlane(t), remote.DefaultClusterAPIUserAgent(name)
			if err := api.Add(pool()); err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				api.CutAfter(agent, n, nil)
			}
			end := startCore(t, api.Config("ignored"), 0)
			time.Sleep(10 * time.Second)
			if n > 0 {
				_ = end() // informers that start without a connection do not end in time
				api.Mend(agent)
				end = startCore(t, api.Config("ignored"), 0)
			}
			time.Sleep(20 * time.Minute)
			writes = len(api.Writes(agent))
			got := statuses(api)
			if n == 0 {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("statuses (-without a kill +with it):\n%s", diff)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
		return writes
	})
}

// random are random parts of names.
var random = regexp.MustCompile(`(workers-|pool-|hash=)[a-z0-9-]+`)

// statuses returns the statuses of all objects that the core may hold, without names and times. It leaves out the
// conditions of the older API: one says which action was the last one, and a kill loses that with each core.
func statuses(api *memkube.Server) []string {
	var out []string
	for _, kind := range []string{"Cluster", "MachineDeployment", "MachineSet", "Machine"} {
		for _, object := range api.Objects(clusterv1.GroupVersion.WithKind(kind)) {
			unstructured.RemoveNestedField(object.Object, "status", "deprecated")
			bare := crashpoints.Bare([]*unstructured.Unstructured{object})
			content, _ := bare[kind+" "+fleet+"/"+object.GetName()].(map[string]any)
			out = append(out, random.ReplaceAllString(fmt.Sprintf("%s %v", kind, content["status"]), "$1x"))
		}
	}
	slices.Sort(out)
	return out
}

// pool is a MachineDeployment that replaces its Machines without a wait for new ones to be available: the cluster
// cannot be reached.
func pool() *clusterv1.MachineDeployment {
	all := intstr.FromString("100%")
	return &clusterv1.MachineDeployment{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "pool", Labels: map[string]string{
			clusterv1.ClusterNameLabel: "demo"}},
		Spec: clusterv1.MachineDeploymentSpec{ClusterName: "demo", Replicas: new(int32(3)),
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"set": "pool"}},
			Rollout: clusterv1.MachineDeploymentRolloutSpec{Strategy: clusterv1.MachineDeploymentRolloutStrategy{
				Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
				RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxUnavailable: &all,
					MaxSurge: new(intstr.FromInt32(1))},
			}},
			Template: machineTemplate("pool", smallHost)},
	}
}

// hostsOfPool returns the number of hosts of the pool's Machines by their template.
func hostsOfPool(api *memkube.Server) map[string]int {
	out := map[string]int{}
	for _, host := range api.Objects(clusterv1.GroupVersionInfrastructure.WithKind("Host")) {
		if host.GetLabels()["set"] == "pool" {
			out[host.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]]++
		}
	}
	return out
}

func edit(t *testing.T, user client.Client, change func(*clusterv1.MachineDeployment)) {
	t.Helper()
	deployment := &clusterv1.MachineDeployment{}
	if err := user.Get(t.Context(), types.NamespacedName{Namespace: fleet, Name: "pool"}, deployment); err != nil {
		t.Fatal(err)
	}
	before := deployment.DeepCopy()
	change(deployment)
	if err := user.Patch(t.Context(), deployment, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func userOf(t *testing.T, api *memkube.Server) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	user, err := client.New(api.Config("user"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return user
}
