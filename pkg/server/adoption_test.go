package server

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/recorded"
)

// differs lists what Drover changes in the recorded objects.
//
//   - Machines get another deletion timeout, and another program compresses the copy of the spec.
//   - The token for nodes and agents becomes a token for nodes, kept in a Secret. Agents get a token of their own.
//   - Hosts refer to their machine. Machines with etcd get a hook that holds their deletion until their member has
//     left.
//   - Service accounts and rights are kept in apply sets. The facts about the cluster are reported.
func differs(servers, workers []string) []string {
	const set, status, machines = " metadata.annotations[objectset.rio.cattle.io/*]", " status.conditions",
		"Update MachineDeployment fleet-default/"
	out := []string{
		"Update Cluster.provisioning.cattle.io fleet-default/demo " +
			"metadata.annotations[clusterctl.cluster.x-k8s.io/block-move] status.conditions status.observedGeneration",
		"Update Cluster.cluster.x-k8s.io fleet-default/demo" + set,
		"Update Cluster.management.cattle.io /" + recordedID + " metadata.annotations[drover.io/instance]" + set +
			" status.conditions status.info status.provider",
		"Update Namespace /" + recordedID + set,
		"Update RKEControlPlane fleet-default/demo" + set + " metadata.annotations[rke.cattle.io/cluster-spec]" +
			status,
		"Create ClusterRegistrationToken " + recordedID + "/system",
		"Update ClusterRegistrationToken " + recordedID + "/default-token" + set +
			" metadata.labels[drover.io/token-purpose] status.expiresAt status.insecureNodeCommand " +
			"status.nodeCommand status.tokenSecretName",
		"Create Secret " + recordedID + "/crt-token-default-token",
		"Create Secret " + recordedID + "/crt-token-system",
		machines + "demo-pool1" + set + " spec.template.spec.deletion.nodeDeletionTimeoutSeconds",
	}
	if len(workers) > 0 {
		out = append(out, machines+"demo-workers"+set+" spec.template.spec.deletion.nodeDeletionTimeoutSeconds")
	}
	for _, name := range servers {
		out = append(out, "Update Machine fleet-default/"+name+
			" metadata.annotations[pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup]")
	}
	for _, name := range slices.Concat(servers, workers) {
		out = append(out,
			"Create ServiceAccount fleet-default/"+name+"-machine-bootstrap",
			"Update ServiceAccount fleet-default/"+name+"-machine-plan"+set,
			"Update Role fleet-default/"+name+"-machine-plan"+set,
			"Update RoleBinding fleet-default/"+name+"-machine-plan"+set,
			"Update PodMachine fleet-default/"+name+" metadata.labels[rke.cattle.io/capi-machine-name]",
		)
	}
	slices.Sort(out)
	return out
}

// recordedID is the name of the management cluster of every recording.
const recordedID = "c-m-q5wzxk7d"

// Drover observes, compares and adopts clusters of other managers without any effect on their nodes. The next edit is
// rolled out.
func TestRecorded_Adoption(t *testing.T) {
	crashpoints.SkipRaced(t)
	for name, tc := range map[string]struct {
		owner            inspect.Ownership
		from             string
		servers, workers []string
	}{
		recorded.RancherOneServer: {inspect.OwnerUnmarked, adopt.FromRancher, []string{"demo-pool1-x7k2p-hjv5c"}, nil},
		recorded.RancherThreeServersTwoWorkers: {
			inspect.OwnerUnmarked, adopt.FromRancher, []string{"demo-pool1-x7k2p-hjv5c", "demo-pool1-x7k2p-q8d2m",
				"demo-pool1-x7k2p-zz4lt"},
			[]string{"demo-workers-x7k2p-hjv5c", "demo-workers-x7k2p-q8d2m"},
		},
		recorded.DroverOtherInstance: {inspect.OwnerOther, recorded.OtherInstance, []string{"demo-pool1-x7k2p-hjv5c"},
			[]string{"demo-workers-x7k2p-hjv5c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRecorded(t)
				defer func() { w.stop(); w.user.Stop(); time.Sleep(time.Hour) }()
				w.recording(name, nil, nil)
				w.foreign()
				a := w.look()
				if a.Owner != tc.owner || a.Result != planner.ClassNone || len(a.Problems) > 0 {
					t.Errorf("%s, %s, problems %q", a.Owner, a.Result, a.Problems)
				}
				if diff := cmp.Diff(differs(tc.servers, tc.workers), lines(a.Objects)); diff != "" {
					t.Errorf("objects that differ (-want +got):\n%s", diff)
				}
				for _, m := range a.Machines {
					if !m.AsFound || m.Next != planner.ClassRestart {
						t.Errorf("%+v", m)
					}
				}
				uids, before := w.state(uid), w.plans()
				w.api.ResetLog()
				check(t, w.take(a, w.limits(tc.from)))
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				w.provesList(a)
				if again := w.look(); len(again.Objects) > 0 {
					t.Errorf("objects differ after the adoption:\n%s", strings.Join(lines(again.Objects), "\n"))
				}
				if diff := cmp.Diff(before, w.plans()); diff != "" {
					t.Errorf("adoption changes plans:\n%s", diff)
				}
				w.edit(func(c *provv1.Cluster) { c.Spec.RKEConfig.MachineGlobalConfig.Data["debug"] = true })
				time.Sleep(time.Minute)
				synctest.Wait()
				changed := 0
				for name, plan := range w.plans() {
					if plan != before[name] {
						changed++
					}
				}
				if changed != 1 {
					t.Errorf("the edit has reached %d machines, want the init node alone\n%s", changed, w.picture())
				}
				after := w.state(uid)
				maps.DeleteFunc(after, func(key, _ string) bool { _, was := uids[key]; return !was })
				if diff := cmp.Diff(uids, after); diff != "" {
					t.Errorf("objects were created again (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// newRecorded returns a world for recorded clusters that has their node driver.
func newRecorded(t *testing.T) *world {
	t.Helper()
	field := mgmtv3.Field{Type: "string", Nullable: true, Create: true, Update: true}
	spec := mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"image": field, "etcdTmpfs": field}}
	w := &world{T: t, api: newAPI(t, driverschema.CRDs("pod", spec)...), served: map[string]downstream{},
		metrics: prometheus.NewRegistry()}
	w.connect()
	_, err := w.user.Core.Namespace().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet}})
	check(t, err)
	return w
}

// connect creates the clients of a world without fakes.
func (w *world) connect() {
	w.Helper()
	var err error
	w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user"})
	check(w.T, err)
	w.live, err = dynamic.NewForConfig(w.api.Config("user"))
	check(w.T, err)
}

// plans returns the plans of all plan Secrets.
func (w *world) plans() map[string]string {
	w.Helper()
	list, err := w.user.Core.Secret().List(fleet, metav1.ListOptions{})
	check(w.T, err)
	out := map[string]string{}
	for i := range list.Items {
		if secret := &list.Items[i]; strings.HasSuffix(secret.Name, "-machine-plan") {
			out[secret.Name] = string(secret.Data[nodeplan.KeyPlan])
		}
	}
	return out
}
