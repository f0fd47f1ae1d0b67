package server

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/adopt"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/applyset"
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/driverschema"
	"github.com/drover-io/drover/pkg/inspect"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/planner"
	"github.com/drover-io/drover/pkg/preview"
	"github.com/drover-io/drover/pkg/testkit/recorded"
)

// differs is what differs of the recorded objects: machines are given another time to be deleted in, the copy of the spec is compressed by another
// program, and the token that let in nodes and agents is one for nodes.
func differs(deployments ...string) []inspect.ObjectChange {
	change := func(kind, name, field string) inspect.ObjectChange {
		return inspect.ObjectChange{
			Kind: kind, Namespace: fleet, Name: name, Verb: applyset.Update, Class: planner.ClassNone, Fields: []preview.Cause{{Field: field, Class: planner.ClassNone}},
		}
	}
	out := []inspect.ObjectChange{change("Cluster.provisioning.cattle.io", demo, "metadata.annotations["+rkev1.BlockMoveAnnotation+"]")}
	for _, name := range deployments {
		out = append(out, change("MachineDeployment", name, "spec.template.spec.deletion.nodeDeletionTimeoutSeconds"))
	}
	token := change("ClusterRegistrationToken", naming.DefaultRegistrationToken, "metadata.labels["+mgmtv3.TokenPurposeLabel+"]")
	token.Namespace = recordedID
	return append(out, change("RKEControlPlane", demo, "metadata.annotations[rke.cattle.io/cluster-spec]"), token,
		inspect.ObjectChange{Kind: token.Kind, Namespace: recordedID, Name: naming.SystemRegistrationToken, Verb: applyset.Create, Class: planner.ClassNone})
}

// recordedID is the management cluster of all recorded clusters.
const recordedID = "c-m-q5wzxk7d"

// Clusters that somebody else made are watched, compared and taken over without a node noticing, and an edit then reaches the first of them.
func TestRecorded_Adoption(t *testing.T) {
	for name, tc := range map[string]struct {
		owner       inspect.Ownership
		from        string
		deployments []string
	}{
		recorded.RancherOneServer:              {inspect.OwnerUnmarked, adopt.FromRancher, []string{"demo-pool1"}},
		recorded.RancherThreeServersTwoWorkers: {inspect.OwnerUnmarked, adopt.FromRancher, []string{"demo-pool1", "demo-workers"}},
		recorded.DroverOtherInstance:           {inspect.OwnerOther, recorded.OtherInstance, []string{"demo-pool1", "demo-workers"}},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				spec := mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{
					"image": {Type: "string", Nullable: true, Create: true, Update: true}, "etcdTmpfs": {Type: "string", Nullable: true, Create: true, Update: true},
				}}
				w := &world{T: t, api: newAPI(t, driverschema.CRDs("pod", spec)...), served: map[string]downstream{}, dataDir: dataDir, metrics: prometheus.NewRegistry()}
				defer func() { w.stop(); w.user.Stop(); time.Sleep(time.Hour) }()
				w.connect()
				_, err := w.user.Core.Namespace().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet}})
				check(t, err)
				objects, err := recorded.Load(name)
				check(t, err)
				_, err = recorded.Create(t.Context(), w.live, objects)
				check(t, err)
				w.foreign()
				a := w.look()
				if a.Owner != tc.owner || a.Result != planner.ClassNone || len(a.Problems) > 0 {
					t.Errorf("%s, %s, problems %q", a.Owner, a.Result, a.Problems)
				}
				if diff := cmp.Diff(differs(tc.deployments...), a.Objects); diff != "" {
					t.Errorf("objects that differ (-want +got):\n%s", diff)
				}
				for _, m := range a.Machines {
					if !m.AsFound || m.Next != planner.ClassRestart {
						t.Errorf("%+v", m)
					}
				}
				uids, before := w.state(uid), w.plans()
				check(t, w.take(a, w.limits(tc.from)))
				time.Sleep(10 * time.Minute)
				synctest.Wait()
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
					t.Errorf("objects were made anew (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// connect makes the clients of a world without fakes.
func (w *world) connect() {
	w.Helper()
	var err error
	w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user"})
	check(w.T, err)
	w.live, err = dynamic.NewForConfig(w.api.Config("user"))
	check(w.T, err)
}

// plans are those on all plan secrets.
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
