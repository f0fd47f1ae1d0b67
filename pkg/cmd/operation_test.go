package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// operated is a management cluster with a cluster that a Drover manages.
func operated(t *testing.T) *memkube.Server {
	t.Helper()
	return theirs(t, "mine", "mine")
}

// machined adds machines with etcd.
func machined(t *testing.T, api *memkube.Server, names ...string) {
	t.Helper()
	told(t, api, func(cp *rkev1.RKEControlPlane) {
		cp.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
			Name: "demo"}}
	})
	for _, name := range names {
		machine := build.Machine("demo", name, "ec", build.WithAddress("10.0.0.1"))
		machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition,
			Status: metav1.ConditionTrue}}
		plan := build.PlanSecret(machine, nodeplan.KeyPlan, "{}", nodeplan.KeyAppliedPlan, "{}")
		for _, object := range []runtime.Object{machine, build.Bootstrap(machine), plan} {
			check(t, api.Add(object))
		}
	}
}

// told changes the control plane, as the planner would.
func told(t *testing.T, api *memkube.Server, change func(*rkev1.RKEControlPlane)) {
	t.Helper()
	cp := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"}}
	if found, err := api.Get(cp); err != nil || !found {
		t.Fatal(err)
	}
	change(cp)
	cp.TypeMeta = metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane"}
	check(t, api.Add(cp))
}

// at is an operation in the given state.
func at(kind planner.OperationKind, request string, state rkev1.OperationState,
	ready string) func(*rkev1.RKEControlPlane) {
	return func(cp *rkev1.RKEControlPlane) {
		cp.Status.Operations = []rkev1.OperationRecord{{Name: kind.Record, Attempt: 1, Request: request, State: state,
			Message: "no space on m"}}
		cp.Status.Conditions = []rkev1.GenericCondition{{Type: rkev1.ConditionReady, Status: "Unknown", Message: ready}}
	}
}

func TestOperations_AreAskedForWithAnotherGenerationEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := operated(t)
		for i, step := range []struct {
			args []string
			want func(*provv1.RKEConfig)
		}{
			{[]string{"snapshot", "take", "demo"}, func(c *provv1.RKEConfig) {
				c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
			}},
			{[]string{"snapshot", "take", "demo"}, func(c *provv1.RKEConfig) {
				c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 2}
			}},
			{[]string{"rotate", "encryption-keys", "demo"}, func(c *provv1.RKEConfig) {
				c.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
			}},
			{[]string{"rotate", "certificates", "demo", "--service", "kubelet", "--service", "api-server"},
				func(c *provv1.RKEConfig) {
					c.RotateCertificates = &rkev1.RotateCertificates{Generation: 1,
						Services: []string{"kubelet", "api-server"}}
				}},
			{[]string{"rotate", "certificates", "demo", "-o", "json"}, func(c *provv1.RKEConfig) {
				c.RotateCertificates = &rkev1.RotateCertificates{Generation: 2}
			}},
		} {
			want := theirCluster(t, api).Spec.DeepCopy()
			step.want(want.RKEConfig)
			code, out, problems := look(t, api, step.args...)
			if code != 0 || !strings.Contains(problems, "drover explain demo -n fleet-default shows how it gets on") ||
				len(api.Writes("drover")) != i+1 {
				t.Errorf("%v: exit code %d, writes %v\n%s%s", step.args, code, api.Writes("drover"), out, problems)
			}
			if diff := cmp.Diff(*want, theirCluster(t, api).Spec); diff != "" {
				t.Errorf("%v: spec (-want +got):\n%s", step.args, diff)
			}
			if said := saidOfRequests[i]; said != "" && said != out {
				t.Errorf("%v: said %s, want %s", step.args, out, said)
			}
		}
	})
}

// saidOfRequests are outputs of the steps above.
var saidOfRequests = map[int]string{3: `Cluster:    fleet-default/demo
Asked for:  rotate-certificates
Field:      spec.rkeConfig.rotateCertificates, generation 1
Services:   kubelet, api-server
`, 4: `{
  "cluster": "fleet-default/demo",
  "operation": "rotate-certificates",
  "field": "spec.rkeConfig.rotateCertificates",
  "generation": 2,
  "notes": [
    "the request with generation 1 has not begun, and this one takes its place"
  ]
}
`}

// Two simultaneous requests get different generations. The second is decided again, based on the result of the first.
func TestAsk_DecidesAnewWhenSomebodyWasQuicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := clients.New(operated(t).Config("asker"), clients.Options{WithoutDynamic: true})
		check(t, err)
		defer c.Stop()
		api := operationAPI{c.Provisioning.Cluster(), c.RKE.RKEControlPlane()}
		take := order{Kind: planner.SnapshotOperation}
		slow := api
		slow.clusters = &beaten{clusterPatcher: api.clusters, by: func() {
			_, _, err := api.ask(t.Context(), defaultNamespace, "demo", take)
			check(t, err)
		}}
		asked, request, err := slow.ask(t.Context(), defaultNamespace, "demo", take)
		if err != nil || asked.Wish.Generation != 2 || request.Generation != 2 {
			t.Errorf("asked %+v, %+v, %v", asked, request, err)
		}
	})
}

func TestOperations_Wait(t *testing.T) {
	kind, request := planner.SnapshotOperation, `{"generation":1}`
	for name, tc := range map[string]struct {
		then []func(*rkev1.RKEControlPlane)
		args []string
		code int
		want string
	}{
		"to its end, and each step is told once": {
			then: []func(*rkev1.RKEControlPlane){
				at(kind, request, rkev1.OperationStateRunning, "etcd snapshot: waiting for a snapshot on m"),
				at(kind, request, rkev1.OperationStateRunning, "etcd snapshot: waiting for a snapshot on m"),
				at(kind, request, rkev1.OperationStateSucceeded, ""),
			},
			want: "etcd snapshot: it has not begun\netcd snapshot: waiting for a snapshot on m\nthe etcd snapshot " +
				"is done\n",
		},
		"until it fails": {
			then: []func(*rkev1.RKEControlPlane){at(kind, request, rkev1.OperationStateFailed, "x")}, code: 1,
			want: "etcd snapshot: it has not begun\nError: the etcd snapshot failed: no space on m; " +
				"docs/reasons/SnapshotFailed.md says what to do\n",
		},
		"not longer than was said": {
			args: []string{"--timeout", "1m"}, code: 1,
			want: "etcd snapshot: it has not begun\n" +
				"Error: the etcd snapshot has not begun within 1m0s: its request still waits for its turn; to take " +
				"it back, remove spec.rkeConfig.etcdSnapshotCreate; " +
				"drover explain demo -n fleet-default shows how it gets on: context deadline exceeded\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := operated(t)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, change := range tc.then {
						time.Sleep(10 * time.Second)
						told(t, api, change)
					}
				}()
				code, out, problems := look(t, api, append([]string{"snapshot", "take", "demo", "--wait"},
					tc.args...)...)
				<-done
				if diff := cmp.Diff(tc.want, problems); diff != "" || code != tc.code ||
					!strings.Contains(out, "generation 1") {
					t.Errorf("exit code %d, want %d\n%s (-want +got):\n%s", code, tc.code, out, diff)
				}
			})
		})
	}
}

func TestOperations_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a missing cluster": {[]string{"snapshot", "take", "absent"},
			"there is no Cluster absent in namespace fleet-default; -n names another one"},
		"a cluster without rkeConfig": {[]string{"rotate", "encryption-keys", "young"},
			"cluster fleet-default/young has no spec.rkeConfig"},
		"no cluster": {[]string{"rotate", "certificates"},
			"CLUSTER is missing; see 'drover rotate certificates --help'"},
		"no snapshot": {[]string{"snapshot", "restore", "demo"},
			"SNAPSHOT is missing; see 'drover snapshot restore --help'"},
		"flags that exclude each other": {[]string{"snapshot", "take", "demo", "--wait", "--dry-run"},
			"none of the others can be"},
		"a time limit without a wait": {[]string{"snapshot", "take", "demo", "--timeout", "1m"},
			"--timeout: nothing is waited for without --wait"},
		"a negative time limit": {[]string{"snapshot", "take", "demo", "--wait", "--timeout", "-1m"},
			"--timeout: -1m0s is less than nothing"},
		"an unknown service": {[]string{"rotate", "certificates", "demo", "--service", "dns"},
			`--service: "dns" is unknown; use admin, api-server, `},
		"an empty service, as from an unset variable": {
			[]string{"rotate", "certificates", "demo", "--service", ""},
			"--service: it names no service, and nothing was asked for",
		},
		"a service of another distribution": {
			[]string{"rotate", "certificates", "demo", "--service", "rke2-server"},
			`--service: cluster fleet-default/demo is one of k3s, which does not have rke2-server`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := operated(t)
				code, out, problems := look(t, api, tc.args...)
				if code != 1 || !strings.Contains(problems, tc.want) {
					t.Errorf("exit code %d, want %q:\n%s%s", code, tc.want, out, problems)
				}
				if writes := api.Writes("drover"); len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}

// --dry-run reports what drover preview reports for the same edit, and requests nothing.
func TestOperations_DryRun(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		code   int
		result planner.Class
		field  string
	}{
		"a snapshot": {[]string{"snapshot", "take", "demo"}, 2, planner.ClassInPlace,
			"spec.rkeConfig.etcdSnapshotCreate"},
		"certificates": {[]string{"rotate", "certificates", "demo"}, 2, planner.ClassRestart,
			"spec.rkeConfig.rotateCertificates"},
		"a restore from a file": {[]string{"snapshot", "restore", "demo", "on-demand-m-1", "--file"}, 2,
			planner.ClassRestart, "spec.rkeConfig.etcdSnapshotRestore"},
		"keys, without a leader": {[]string{"rotate", "encryption-keys", "demo"}, 0, planner.ClassNone,
			"spec.rkeConfig.rotateEncryptionKeys"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := operated(t)
				machined(t, api, "m")
				code, out, problems := look(t, api, append(tc.args, "--dry-run", "-o", "json")...)
				var report preview.Report
				if err := json.Unmarshal([]byte(out), &report); err != nil {
					t.Fatalf("%v\n%s%s", err, out, problems)
				}
				if code != tc.code || report.Result != tc.result || len(report.Fields) != 1 ||
					report.Fields[0].Field != tc.field {
					t.Errorf("exit code %d, want %d; %+v\n%s", code, tc.code, report, problems)
				}
				if writes := api.Writes("drover"); len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}
