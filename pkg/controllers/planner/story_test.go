package planner_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/controllers/planner"
	"github.com/drover-io/drover/pkg/controllers/plansecret"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	namespace = "fleet-default"
	cluster   = "demo"
	instance  = "drover-1"
	manager   = "drover/manager"
)

// story is a management API with one cluster, a minimal agent on every machine, and managers that start and stop.
type story struct {
	*testing.T
	api   *memkube.Server
	world *clients.Clients
	roles map[string]string
	// stamps holds the restart stamps of the first plans.
	stamps map[string]string
	// metrics collects those of all managers.
	metrics *prometheus.Registry
	// versions are the render versions that the next manager knows.
	versions render.Versions
	// nodes holds the cluster's nodes if the real controller drains them. Nil means that the test simulates drains.
	nodes *fake.Clientset
	// stop stops the manager of a test that runs again with kills.
	stop func()
}

// sameTokens makes the tokens of all managers equal, so that results can be compared.
type sameTokens struct{}

func (sameTokens) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(i)
	}
	return len(b), nil
}

func newStory(t *testing.T, version string, roles map[string]string) *story {
	t.Helper()
	logrus.SetOutput(io.Discard)
	scheme, err := clients.NewScheme()
	must(t, err)
	definitions, err := crds.All()
	must(t, err)
	s := &story{T: t, roles: roles, metrics: prometheus.NewRegistry(),
		api: memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{namespace},
			Permit: rights.Permit(t, manager)})}
	s.world, err = clients.New(s.api.Config("world"), clients.Options{Version: "world"})
	must(t, err)
	t.Cleanup(s.world.Stop)
	t.Cleanup(func() { disruptions.Check(t, s.metrics) })
	s.createCluster(version)
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		s.createMachine(name)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *story) createCluster(version string) {
	s.Helper()
	_, err := s.world.Provisioning.Cluster().Create(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster,
			Annotations: map[string]string{"drover.io/instance": instance}},
		Spec: provv1.ClusterSpec{KubernetesVersion: version},
	})
	must(s.T, err)
	_, err = s.world.Management.Cluster().Create(&mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}})
	must(s.T, err)
	owner, err := s.world.CAPI.Cluster().Create(
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster}})
	must(s.T, err)
	yes := true
	owner.Status.Initialization.InfrastructureProvisioned = &yes
	_, err = s.world.CAPI.Cluster().UpdateStatus(owner)
	must(s.T, err)
	_, err = s.world.RKE.RKEControlPlane().Create(&rkev1.RKEControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: cluster,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
				Name: cluster, UID: owner.UID, Controller: &yes}},
		},
		Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: version, ClusterName: cluster,
			ManagementClusterName: "c-m-1"},
	})
	must(s.T, err)
}

// createMachine makes what Cluster API and the bootstrap controller make for a machine of a pool.
func (s *story) createMachine(name string) {
	s.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: cluster, rkev1.CattleOSLabel: "linux"}
	for role := range strings.SplitSeq(s.roles[name], ",") {
		labels["rke.cattle.io/"+role+"-role"] = "true"
	}
	machine, err := s.world.CAPI.Machine().Create(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName: cluster,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: name + "-boot"}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io",
				Kind: "CustomMachine", Name: name},
		},
	})
	must(s.T, err)
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{Type: "InfrastructureReady", Status: "True"}, 1,
		time.Now())
	_, err = s.world.CAPI.Machine().UpdateStatus(machine)
	must(s.T, err)
	_, err = s.world.RKE.RKEBootstrap().Create(&rkev1.RKEBootstrap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-boot"},
		Spec:       rkev1.RKEBootstrapSpec{ClusterName: cluster},
	})
	must(s.T, err)
	_, err = s.world.Core.Secret().Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: naming.PlanSecret(name + "-boot"),
			Labels: map[string]string{rkev1.ClusterNameLabel: cluster, rkev1.MachineNameLabel: name},
		},
		Type: rkev1.SecretTypeMachinePlan,
	})
	must(s.T, err)
}

// startManager runs the controllers and returns a function that stops them.
func (s *story) startManager() (stop func()) {
	s.Helper()
	c, err := clients.New(s.api.Config("manager"), clients.Options{Version: "manager"})
	must(s.T, err)
	machines := planstore.NewMachines(c.CAPI.Machine())
	counter, err := metrics.NewDisruptions(s.metrics)
	must(s.T, err)
	must(s.T, planner.Register(c.HandlerContext(), planner.Deps{
		Access:               access.New(access.Options{}),
		InstanceID:           instance,
		ProvisioningClusters: c.Provisioning.Cluster(),
		ControlPlanes:        c.RKE.RKEControlPlane(),
		Bootstraps:           c.RKE.RKEBootstrap(),
		Clusters:             c.CAPI.Cluster(),
		Machines:             c.CAPI.Machine(),
		ManagementClusters:   c.Management.Cluster(),
		Secrets:              c.Core.Secret(),
		ConfigMaps:           c.Core.ConfigMap(),
		Snapshots:            c.RKE.ETCDSnapshot(),
		Release:              func(v string) distro.Release { return distro.Release{Version: v, Known: true} },
		Settings:             func() render.Settings { return render.Settings{} },
		Random:               sameTokens{},
		MachineStore:         machines,
		Disruptions:          counter,
		Versions:             s.versions,
	}))
	must(s.T, plansecret.Register(c.HandlerContext(), plansecret.Deps{
		InstanceID:           instance,
		Secrets:              c.Core.Secret(),
		Machines:             c.CAPI.Machine(),
		ControlPlanes:        c.RKE.RKEControlPlane().Cache(),
		ProvisioningClusters: c.Provisioning.Cluster().Cache(),
		MachineStore:         machines,
	}))
	s.registerDrains(c)
	ctx, cancel := context.WithCancel(s.Context())
	if err := c.Start(ctx); err != nil {
		s.Log("the manager did not start:", err)
	}
	return func() {
		cancel()
		c.Stop()
	}
}

// agentsPass runs the agent of every machine once, and Cluster API's check of it.
func (s *story) agentsPass() {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		if err := s.agentPass(name); err != nil && !apierrors.IsConflict(err) {
			s.Fatal(err)
		}
	}
}

// agentPass applies a new plan, reports the probes of the applied plan, or lets Cluster API find the node.
func (s *story) agentPass(name string) error {
	secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
	if err != nil || len(secret.Data[nodeplan.KeyPlan]) == 0 {
		return err
	}
	checksum := nodeplan.Checksum(secret.Data[nodeplan.KeyPlan])
	healthy := string(secret.Data[nodeplan.KeyAppliedChecksum]) == checksum
	current, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
	if err != nil {
		return err
	}
	statuses := map[string]plan.ProbeStatus{}
	for probe := range current.Probes {
		statuses[probe] = plan.ProbeStatus{Healthy: healthy}
	}
	reported, err := nodeplan.EncodeProbeStatuses(statuses)
	if err != nil {
		return err
	}
	if healthy && string(secret.Data[nodeplan.KeyProbeStatuses]) == string(reported) {
		return s.findNode(name)
	}
	secret.Data[nodeplan.KeyAppliedChecksum] = []byte(checksum)
	secret.Data[nodeplan.KeyProbeStatuses] = reported
	_, err = s.world.Core.Secret().Update(secret)
	return err
}

// findNode writes what Cluster API writes after the node of a machine has registered, and what follows from the first
// node.
func (s *story) findNode(name string) error {
	machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
	if err != nil || machine.Status.NodeRef.Name != "" {
		return err
	}
	machine.Status.NodeRef.Name = name
	cp, err := s.world.RKE.RKEControlPlane().Get(namespace, cluster, metav1.GetOptions{})
	if err != nil {
		return err
	}
	machine.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: cp.Spec.KubernetesVersion}
	serial := slices.Index(slices.Sorted(maps.Keys(s.roles)), name)
	machine.Status.Addresses = clusterv1.MachineAddresses{
		{Type: "InternalIP", Address: fmt.Sprintf("10.0.0.%d", serial+1)}}
	if _, err = s.world.CAPI.Machine().UpdateStatus(machine); err != nil {
		return err
	}
	mgmt, err := s.world.Management.Cluster().Get("c-m-1", metav1.GetOptions{})
	if err != nil || !conditions.Set(&mgmt.Status.Conditions, conditions.Condition{Type: "Connected", Status: "True"},
		time.Now()) {
		return err
	}
	_, err = s.world.Management.Cluster().UpdateStatus(mgmt)
	return err
}

// elapse lets virtual time pass, and waits until everything due is done.
func (s *story) elapse(d time.Duration) {
	s.Helper()
	<-time.After(d)
	synctest.Wait()
}

func (s *story) controlPlane() *rkev1.RKEControlPlane {
	s.Helper()
	cp, err := s.world.RKE.RKEControlPlane().Get(namespace, cluster, metav1.GetOptions{})
	must(s.T, err)
	return cp
}

func (s *story) ready() bool {
	s.Helper()
	return conditions.IsTrue(s.controlPlane().Status.Conditions, "Ready")
}

// untilReady lets time pass, with a pass of the agents every five seconds, and returns the time it took.
func (s *story) untilReady() time.Duration {
	s.Helper()
	begin := time.Now()
	for time.Since(begin) < 10*time.Minute {
		synctest.Wait()
		if s.ready() {
			return time.Since(begin)
		}
		s.elapse(5 * time.Second)
		s.agentsPass()
	}
	s.Fatalf("the cluster is never ready: %+v", s.controlPlane().Status.Conditions)
	return 0
}

var topologies = map[string]struct {
	version string
	roles   map[string]string
}{
	"one K3s server": {"v1.36.2+k3s1", map[string]string{"a": "etcd,control-plane,worker"}},
	"three RKE2 servers, 2 worker": {"v1.36.2+rke2r1",
		map[string]string{"a": "etcd,control-plane", "b": "etcd,control-plane", "c": "etcd,control-plane",
			"w1": "worker", "w2": "worker"}},
}

func TestStory_NewClusterGetsReadyAndThenNothingIsWritten(t *testing.T) {
	for name, tc := range topologies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, tc.version, tc.roles)
				stop := s.startManager()
				defer stop()
				took := s.untilReady()
				s.agentsPass()
				s.agentsPass()
				s.elapse(time.Minute)
				writes := s.api.Writes(manager)
				t.Logf("ready after %s of virtual time, %d writes for %d machines", took, len(writes), len(tc.roles))
				for _, write := range writes {
					t.Log(write, write.Code)
				}
				s.api.ResetLog()
				s.elapse(10 * time.Minute)
				if late := s.api.Writes(manager); len(late) > 0 {
					t.Errorf("%d writes in ten minutes without changes: %v", len(late), late)
				}
				if per := len(writes) / len(tc.roles); per > 24 {
					t.Errorf("%d writes per machine", per)
				}
			})
		})
	}
}

// Wherever a manager is killed, the next one brings the cluster to the same result.
func TestStory_ManagerIsKilledAfterAnyWrite(t *testing.T) {
	for name, tc := range topologies {
		t.Run(name, func(t *testing.T) {
			var want map[string]any
			run := func(n int) (writes int) {
				synctest.Test(t, func(t *testing.T) {
					s := newStory(t, tc.version, tc.roles)
					stop := s.startManager()
					if n > 0 {
						dead := make(chan struct{})
						s.api.CutAfter(manager, n, func() { close(dead) })
						s.waitFor(dead)
						stop()
						s.api.Mend(manager)
						stop = s.startManager()
					}
					defer func() { stop() }()
					s.untilReady()
					for range 3 {
						s.agentsPass()
						s.elapse(time.Minute)
					}
					writes = s.api.Written(manager)
					got := s.objects()
					if want == nil {
						want = got
					}
					if diff := cmp.Diff(want, got); diff != "" {
						for _, w := range s.api.Writes("drover") {
							t.Log(w, w.Code)
						}
						t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
					}
				})
				return writes
			}
			for _, n := range crashpoints.Of(t, run(0), 36) {
				run(n)
			}
		})
	}
}

// waitFor lets time pass until the manager is killed, or until it would have made all its writes.
func (s *story) waitFor(dead <-chan struct{}) {
	s.Helper()
	for range 60 {
		synctest.Wait()
		select {
		case <-dead:
			return
		default:
		}
		s.elapse(5 * time.Second)
		s.agentsPass()
	}
}

// Clusters without this instance's mark are ignored.
func TestStory_ForeignClustersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "v1.36.2+k3s1", map[string]string{"a": "etcd,control-plane,worker"})
		found, err := s.world.Provisioning.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(t, err)
		found.Annotations["drover.io/instance"] = "another-owner"
		found, err = s.world.Provisioning.Cluster().Update(found)
		must(t, err)
		stop := s.startManager()
		defer stop()
		s.elapse(time.Hour)
		if writes := s.api.Writes(manager); len(writes) > 0 {
			t.Errorf("%d writes: %v", len(writes), writes)
		}
		found.Annotations["drover.io/instance"] = instance
		_, err = s.world.Provisioning.Cluster().Update(found)
		must(t, err)
		s.untilReady()
	})
}
