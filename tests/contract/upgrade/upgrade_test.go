package upgrade

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	// many is the number of clusters during the upgrade, with one machine each.
	many = 100
	// atATime is the number of clusters that are created at the same time.
	atATime = 25
	// rest is the time without a write after which clusters count as settled.
	rest = stage.Rest
	// nextRendering is the render version of the next version's plans.
	nextRendering = "2"
)

var nextProgram string

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "drover-next-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	root, err := plane.FindRoot()
	if err == nil {
		nextProgram, err = buildNext(context.Background(), root, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the next version:", err)
		return 1
	}
	fmt.Printf("the next version was built in %s\n", time.Since(begin).Round(time.Second))
	return stage.Main(m)
}

// TestUpgradeDowngrade upgrades Drover with a hundred existing clusters, creates one more, and rolls the upgrade back.
// No plan changes, no machine is replaced, nothing that Cluster API acts on changes, and almost nothing is written.
func TestUpgradeDowngrade(t *testing.T) {
	server := replica.New(t, "drover", stage.AccountKubeconfig(t), "--shutdown-delay=0s")
	present := server.Program
	st := stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) { o.Dial = replica.Dial(server) },
		Drover:   func(*testing.T) { server.Start(); server.AwaitReady() },
	})
	u := &upgrade{T: t, Stage: st, server: server, namespace: plane.Namespace(t)}
	u.makeClusters()
	before := u.record()
	if len(before.Plans) != many || len(before.Objects) < 8*many {
		t.Fatalf("%d plans and %d objects were recorded", len(before.Plans), len(before.Objects))
	}

	u.restart(nextProgram)
	u.expect("after the upgrade", before)
	newest := u.makeNext()

	u.restart(present)
	u.expect("after the downgrade", before)
	if diff := cmp.Diff(newest, u.planOf("next")); diff != "" {
		t.Errorf("the downgrade changed a plan of the next version (-before +after):\n%s", diff)
	}
	u.expectKept("next")
	// Drover manages the existing clusters.
	st.Edit(u.namespace, "c-000", func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, stage.Pool("more", "w", 1))
		c.Spec.RKEConfig.MachinePools[1].NodeConfig.Name = c.Spec.RKEConfig.MachinePools[0].NodeConfig.Name
	})
	st.AwaitMachines(u.namespace, many+2)
}

type upgrade struct {
	*testing.T
	*stage.Stage
	server    *replica.Replica
	namespace string
}

func (u *upgrade) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *upgrade) makeClusters() {
	u.Helper()
	begin := time.Now()
	name := func(i int) string { return fmt.Sprintf("c-%03d", i) }
	for i := range many + atATime {
		if i < many {
			u.Cluster(u.namespace, name(i), []string{stage.RKE2, stage.K3s}[i%2], stage.Pool("all", "ecw", 1))
		}
		if i >= atATime {
			plane.Until(u.T, 10*time.Minute, func() string { return u.WaitingFor(u.namespace, name(i-atATime)) })
		}
	}
	u.AwaitMachines(u.namespace, many)
	u.settle()
	u.Logf("%d clusters live after %s", many, time.Since(begin).Round(time.Second))
}

// isOfRegistration reports whether a write is about the commands that register hosts. They are in the namespace of the
// management Cluster, which has no other Secrets that a new version writes.
func isOfRegistration(w audit.Write) bool {
	return strings.HasPrefix(w.Namespace, "c-m-") &&
		(w.Resource == "clusterregistrationtokens" || w.Resource == "secrets")
}

// settle waits until nothing has been written for a while.
func (u *upgrade) settle() {
	u.Helper()
	plane.Until(u.T, 3*time.Minute, func() string {
		if writes := plane.Writes(u.T, stage.DroverAgent, time.Now().Add(-rest)); len(writes) > 0 {
			return fmt.Sprintf("last write: %+v", writes[len(writes)-1])
		}
		return ""
	})
}

// restart ends the program, starts another one, and waits until that has handled all objects. It checks that the
// program wrote almost nothing by itself.
func (u *upgrade) restart(program string) {
	u.Helper()
	u.expectNoDisruption()
	u.server.Stop()
	begin := time.Now()
	u.server.Program = program
	u.server.Start()
	u.server.AwaitReady()
	replica.Leader(u.T, time.Minute, u.server)
	leads := time.Since(begin)
	u.settle()
	// Writes outside clusters do not count: CRDs, published settings, and the commands that register hosts, which have
	// the digest of the install script. At its start, Cluster API's core applies every
	// object again, because it remembers applied objects only in memory, and counts nodes again. The record contains
	// everything that it could change.
	counts, own := map[string]int{}, 0
	for _, w := range plane.Writes(u.T, stage.DroverAgent, begin) {
		if w.Resource == "customresourcedefinitions" || w.Namespace == "drover-system" || isOfRegistration(w) {
			continue
		}
		by := "Cluster API"
		if strings.HasPrefix(w.UserAgent, stage.DroverAgent+"/") &&
			!strings.Contains(w.UserAgent, "cluster.x-k8s.io/") {
			by = "Drover"
			own++
		}
		counts[fmt.Sprintf("%s %s %s by %s, answered %d", w.Verb, w.Resource, w.Subresource, by, w.Code)]++
	}
	u.Logf("the controllers run %s after the start; %d writes of Drover for %d clusters until all settled: %v",
		leads.Round(10*time.Millisecond), own, many, counts)
	if own > 2 {
		u.Errorf("%d writes to live clusters", own)
	}
	u.expectNoDisruption()
}

// makeNext creates a cluster with the next version and returns its plan. The plan shows the next version, and a status
// field that this version does not know has a value.
func (u *upgrade) makeNext() map[string]string {
	u.Helper()
	u.Cluster(u.namespace, "next", stage.K3s, stage.Pool("all", "ecw", 1))
	plane.Until(u.T, 2*time.Minute, func() string { return u.WaitingFor(u.namespace, "next") })
	u.AwaitMachines(u.namespace, many+1)
	controlPlane := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "next"}}
	u.must(u.Client.Status().Patch(u.Context(), controlPlane,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"next":"kept"}}`))))
	u.settle()
	plan := u.planOf("next")
	if len(plan) != 1 {
		u.Fatalf("the cluster of the next version has %d plans", len(plan))
	}
	for name, data := range plan {
		if !strings.Contains(data, "/etc/next") {
			u.Errorf("the next version renders the same plan for %s, so this test proves nothing", name)
		}
	}
	if kept := u.statusOf("next")["next"]; kept != "kept" {
		u.Errorf("the CRDs of the next version are missing: status.next is %v", kept)
	}
	return plan
}

// expectKept fails unless the older program reports that it keeps the plans of a cluster, which it cannot render, and
// leaves the cluster alone.
func (u *upgrade) expectKept(cluster string) {
	u.Helper()
	controlPlane := &rkev1.RKEControlPlane{}
	u.must(u.Client.Get(u.Context(), client.ObjectKey{Namespace: u.namespace, Name: cluster}, controlPlane))
	condition := stage.Condition(controlPlane.Status.Conditions, "RenderVersionsKnown")
	if condition.Status != rkev1.ConditionFalse || !strings.Contains(condition.Message, nextRendering) {
		u.Errorf("condition RenderVersionsKnown is %+v", condition)
	}
	if waiting := u.WaitingFor(u.namespace, cluster); waiting != "" {
		u.Errorf("the cluster is not ready without an edit: %s", waiting)
	}
}

func (u *upgrade) statusOf(cluster string) map[string]any {
	u.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(rkev1.SchemeGroupVersion.WithKind("RKEControlPlane"))
	u.must(u.Client.Get(u.Context(), client.ObjectKey{Namespace: u.namespace, Name: cluster}, object))
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	return status
}

// planOf returns the plans of a cluster by the names of their Secrets.
func (u *upgrade) planOf(cluster string) map[string]string {
	u.Helper()
	secrets := &corev1.SecretList{}
	u.must(u.Client.List(u.Context(), secrets, client.InNamespace(u.namespace),
		client.MatchingLabels{rkev1.ClusterNameLabel: cluster}))
	plans := map[string]string{}
	for i := range secrets.Items {
		if secret := &secrets.Items[i]; secret.Type == rkev1.SecretTypeMachinePlan {
			plans[secret.Name] = string(secret.Data[nodeplan.KeyPlan])
		}
	}
	return plans
}

// record is what an upgrade must not change.
type record struct {
	// Plans are the bytes of plans and of the values stored with them, by the names of their Secrets.
	Plans map[string]string
	// Objects are the UID and the generation of all objects that Cluster API or Drover acts on.
	Objects map[string]string
}

// kept are the groups whose objects are recorded.
var kept = []string{"cluster.x-k8s.io", "rke.cattle.io", "rke-machine.cattle.io", "rke-machine-config.cattle.io",
	"provisioning.cattle.io"}

// record returns the record without the cluster of the next version and the machine of an edit.
func (u *upgrade) record() record {
	u.Helper()
	out := record{Plans: map[string]string{}, Objects: map[string]string{}}
	secrets := &corev1.SecretList{}
	u.must(u.Client.List(u.Context(), secrets, client.InNamespace(u.namespace)))
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Type != rkev1.SecretTypeMachinePlan || ofNext(secret.Name) {
			continue
		}
		out.Plans[secret.Name] = fmt.Sprint(string(secret.Data[nodeplan.KeyPlan]), secret.Labels, secret.Annotations)
	}
	for _, gvk := range u.kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		u.must(u.Client.List(u.Context(), list, client.InNamespace(u.namespace)))
		for i := range list.Items {
			object := &list.Items[i]
			if !ofNext(object.GetName()) {
				out.Objects[gvk.GroupKind().String()+" "+object.GetName()] = fmt.Sprint(object.GetUID(), " ",
					object.GetGeneration())
			}
		}
	}
	return out
}

func ofNext(name string) bool { return name == "next" || strings.HasPrefix(name, "next-") }

// kinds returns all namespaced kinds of the recorded groups.
func (u *upgrade) kinds() []schema.GroupVersionKind {
	u.Helper()
	all := map[schema.GroupVersionKind]bool{}
	for _, kind := range u.Kinds() {
		if slices.Contains(kept, kind.Group) {
			all[kind] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

func (u *upgrade) expect(moment string, before record) {
	u.Helper()
	after := u.record()
	if diff := cmp.Diff(before.Objects, after.Objects); diff != "" {
		u.Errorf("%s, objects with UID and generation (-before +after):\n%s", moment, diff)
	}
	for _, name := range slices.Sorted(maps.Keys(before.Plans)) {
		if before.Plans[name] != after.Plans[name] {
			u.Errorf("%s: the plan in %s has changed", moment, name)
		}
	}
	if len(before.Plans) != len(after.Plans) {
		u.Errorf("%s, %d plans exist, before %d", moment, len(after.Plans), len(before.Plans))
	}
}

// expectNoDisruption fails for every machine that this run of the program has restarted, drained or replaced.
func (u *upgrade) expectNoDisruption() {
	u.Helper()
	counts, err := u.server.Disruptions()
	u.must(err)
	for cause, count := range counts {
		if count > 0 {
			u.Errorf("%d disruptions by %s", count, cause)
		}
	}
}
