package events

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func meta(kind, status, reason, message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		conditions.SetMeta(&m.Status.Conditions, conditions.Condition{Type: kind, Status: status, Reason: reason,
			Message: message}, 1, noon)
	}
}

func TestMachineChanged(t *testing.T) {
	failing := meta("Reconciled", "Unknown", "Waiting",
		"failure while applying plan, instruction install, exit code 1: no space")
	gone := func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(noon)) }
	for name, tc := range map[string]struct {
		before, after   func(*clusterv1.Machine)
		clusterDeleting bool
		want            []string
	}{
		"bootstrap data":         {after: meta("BootstrapConfigReady", "True", "Ready", "")},
		"missing bootstrap data": {after: meta("BootstrapConfigReady", "False", "NotReady", "wait")},
		"invalid bootstrap data": {after: meta("BootstrapConfigReady", "False", "BadInput", "too long"),
			want: []string{"Machine a Warning BootstrapDataFailed BadInput: too long"}},
		"a host": {before: func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.APIGroup = "rke.cattle.io" },
			after: meta("InfrastructureReady", "True", "Ready", ""),
			want:  []string{"Cluster demo Normal InfrastructureReady Machine a has a host"}},
		"a host that a Job creates has its own event": {after: meta("InfrastructureReady", "True", "Ready", "")},
		"a host during its creation": {after: meta("InfrastructureReady", "False", "Creating",
			"Creating SimMachine")},
		"a failed host reveals no password": {after: meta("InfrastructureReady", "False", "CreateError",
			"login: password=hunter2"),
			want: []string{"Machine a Warning InfrastructureFailed CreateError: login: password=***"}},
		"a plan fails, reported by the planner": {after: failing, want: []string{
			"Machine a Warning PlanFailed failure while applying plan, instruction install, exit code 1: no space",
		}},
		"the same failure with another message": {before: failing,
			after: meta("Reconciled", "Unknown", "Waiting", "failure while applying plan (2 attempts or more)")},
		"a final failure causes no second event": {before: failing,
			after: meta("PlanApplied", "False", "Error", "error applying plan")},
		"a failure that the planner does not report": {after: meta("PlanApplied", "False", "Error",
			"error applying plan"), want: []string{"Machine a Warning PlanFailed error applying plan"}},
		"its node": {after: func(m *clusterv1.Machine) { build.WithNode("node-a")(m) },
			want: []string{"Cluster demo Normal NodeRegistered Machine a (node node-a) is a node"}},
		"its node has its name": {after: func(m *clusterv1.Machine) { build.WithNode("a")(m) },
			want: []string{"Cluster demo Normal NodeRegistered Machine a is a node"}},
		"it is ready": {after: meta("Ready", "True", "Ready", ""),
			want: []string{"Cluster demo Normal MachineReady Machine a is ready"}},
		"a node that never registered is not unhealthy": {after: meta("NodeHealthy", "Unknown", "NodeHealthyUnknown",
			"wait")},
		"a node becomes unhealthy": {
			before: meta("NodeHealthy", "True", "NodeHealthy", ""),
			after:  meta("NodeHealthy", "False", "NodeNotHealthy", "kubelet stopped"),
			want:   []string{"Machine a Warning NodeUnhealthy NodeNotHealthy: kubelet stopped"},
		},
		"a health check": {
			after: meta("HealthCheckSucceeded", "False", "UnhealthyNode", "for 5m"),
			want:  []string{"Machine a Warning HealthCheckFailed UnhealthyNode: for 5m"},
		},
		"it is replaced by its health check": {
			before: meta("HealthCheckSucceeded", "False", "UnhealthyNode", "for 5m"), after: gone,
			want: []string{
				"Machine a Warning MachineReplaced Another machine replaces it: cause health-check-failed: " +
					"UnhealthyNode: for 5m"},
		},
		"it is replaced because its creation failed": {
			before: meta("InfrastructureReady", "False", "CreateError", "no quota"), after: gone,
			want: []string{
				"Machine a Warning MachineReplaced Another machine replaces it: cause health-machine-failed"},
		},
		"it is replaced because its pool was edited": {
			before: meta("UpToDate", "False", "NotUpToDate", "infrastructure"), after: gone,
			want: []string{"Machine a Normal MachineReplaced Another machine replaces it: cause edit-pool"},
		},
		"a user selected it": {
			before: func(m *clusterv1.Machine) {
				m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: "true"}
			},
			after: gone,
			want: []string{
				"Cluster demo Normal MachineDeleting Machine a is removed, because annotation " +
					"cluster.x-k8s.io/delete-machine selects it"},
		},
		"its pool is scaled down": {after: gone,
			want: []string{"Cluster demo Normal MachineDeleting Machine a is removed, because its pool was scaled " +
				"down or a user deleted it"}},
		"the cluster is deleted": {after: gone, clusterDeleting: true,
			want: []string{"Cluster demo Normal MachineDeleting Machine a is removed with its cluster"}},
		"a deletion causes no second event": {before: gone, after: func(m *clusterv1.Machine) {
			gone(m)
			meta("NodeHealthy", "False", "x", "")(m)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := build.Cluster("demo")
			if tc.clusterDeleting {
				cluster.DeletionTimestamp = new(metav1.NewTime(noon))
			}
			before, after := build.Machine("demo", "a", "w"), build.Machine("demo", "a", "w")
			if tc.before != nil {
				tc.before(before)
				tc.before(after)
			}
			tc.after(after)
			expect(t, MachineChanged(cluster, before, after), tc.want...)
			expect(t, MachineChanged(cluster, after, after.DeepCopy()))
		})
	}
}

func TestMachine_CreationAndRemoval(t *testing.T) {
	machine, cluster := build.Machine("demo", "a", "w"), build.Cluster("demo")
	expect(t, MachineCreated(cluster, machine), "Cluster demo Normal MachineCreated Machine a is created")
	expect(t, MachineRemoved(cluster, machine), "Cluster demo Normal MachineRemoved Machine a was removed")
	cluster.DeletionTimestamp = new(metav1.NewTime(noon))
	expect(t, MachineRemoved(cluster, machine))
}

func evidence(plan, cause string) string {
	text, _ := json.Marshal(map[string]string{"plan": nodeplan.Checksum([]byte(plan)), "cause": cause})
	return string(text)
}

func TestPlanChanged(t *testing.T) {
	const first, second = "7692c3ad3540", "3fc4ccfe7458"
	note := func(pairs ...string) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			for i := 0; i < len(pairs); i += 2 {
				s.Annotations[pairs[i]] = pairs[i+1]
			}
		}
	}
	all := func(edits ...func(*corev1.Secret)) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	plan := func(text string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[nodeplan.KeyPlan] = []byte(text) }
	}
	asked := note(rkev1.DrainAnnotation, "options")
	ticket := func(cause string) *rkev1.DisruptionTicket {
		return &rkev1.DisruptionTicket{Cause: cause, Machines: []rkev1.TicketMachine{{MachineUID: "uid-of-a"}}}
	}
	for name, tc := range map[string]struct {
		before, after func(*corev1.Secret)
		ticket        *rkev1.DisruptionTicket
		want          []string
	}{
		"the first plan waits for its result": {after: plan("one")},
		"a plan that restarts nothing": {
			before: plan("one"), after: plan("two"),
			want: []string{"Cluster demo Normal PlanDelivered Machine a gets a plan that restarts nothing"},
		},
		"a plan that restarts": {
			before: plan("one"),
			after:  all(plan("two"), note(rkev1.PlanEvidenceAnnotation, evidence("two", "edit-version"))),
			want: []string{"Machine a Normal MachineRestarting Plan " + second +
				" was delivered and restarts Kubernetes on the node: cause edit-version"},
		},
		"a forged cause of a node": {
			before: plan("one"),
			after:  all(plan("two"), note(rkev1.PlanEvidenceAnnotation, evidence("two", "see https://evil.example"))),
			want:   []string{"Cluster demo Normal PlanDelivered Machine a gets a plan that restarts nothing"},
		},
		"a retried plan": {
			before: plan("one"), after: note(rkev1.PlanUpdatedTimeAnnotation, "later"),
			want: []string{"Machine a Normal PlanDelivered Plan " + first + " is retried"},
		},
		"an applied plan": {
			before: plan("one"), after: note(rkev1.PlanProbesPassedAnnotation, "now"),
			want: []string{"Cluster demo Normal PlanApplied Machine a has applied its plan, and all probes pass"},
		},
		"reports of the agent cause no event": {before: plan("one"), after: func(s *corev1.Secret) {
			s.Data[nodeplan.KeyFailedOutput], s.Data[nodeplan.KeyFailureCount] = []byte("password=hunter2"), []byte("3")
		}},
		"a drain starts": {after: asked, ticket: ticket("edit-version"),
			want: []string{"Machine a Normal DrainStarted Its node is drained before a restart: cause edit-version"}},
		"a drain whose ticket has no cause": {
			after: asked, ticket: ticket("another try"),
			want: []string{"Machine a Normal DrainStarted Its node is drained before a restart"},
		},
		"a drain with the ticket of others": {
			after: asked, ticket: &rkev1.DisruptionTicket{Cause: "edit-version"},
			want: []string{"Machine a Normal DrainStarted Its node is drained before a restart"},
		},
		"a drain ends": {before: asked, after: note(rkev1.DrainDoneAnnotation, "options"),
			want: []string{"Machine a Normal DrainFinished Its node is drained"}},
		"a drain ends with an ignored error": {before: all(asked,
			note(rkev1.DrainErrorAnnotation, "budget; token: hunter2")),
			after: note(rkev1.DrainDoneAnnotation, "options"),
			want: []string{"Machine a Warning DrainFailed The drain ends with an error, which its options ignore: " +
				"budget; token: ***"}},
		"a drain that ended before": {before: asked, after: note(rkev1.DrainDoneAnnotation, "others")},
		"a drain fails": {
			before: asked, after: note(rkev1.DrainErrorAnnotation, "budget; token: hunter2"),
			want: []string{"Machine a Warning DrainFailed budget; token: ***"},
		},
		"its node accepts pods again": {before: all(asked, note(rkev1.UncordonAnnotation, "options")),
			after: func(s *corev1.Secret) {
				s.Annotations = nil
			}, want: []string{"Machine a Normal Uncordoned Its node accepts pods again"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, machine := build.Cluster("demo"), build.Machine("demo", "a", "w")
			before, after := build.PlanSecret(machine), build.PlanSecret(machine)
			if tc.before != nil {
				tc.before(before)
				tc.before(after)
			}
			tc.after(after)
			expect(t, PlanChanged(cluster, machine, tc.ticket, before, after), tc.want...)
			expect(t, PlanChanged(cluster, machine, tc.ticket, after, after.DeepCopy()))
			before.Type, after.Type = "Opaque", "Opaque"
			expect(t, PlanChanged(cluster, machine, tc.ticket, before, after))
		})
	}
}

func TestInfrastructureChanged(t *testing.T) {
	object := func(failure string, list ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rke-machine.cattle.io/v1", "kind": "SimMachine", "metadata": map[string]any{"name": "a"},
			"status": map[string]any{"failureMessage": failure, "conditions": list},
		}}
	}
	one := func(kind, status, reason, message string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
	}
	nothing, creating := object(""), object("", one("CreateJob", "Unknown", "Creating", ""))
	for name, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		want          []string
	}{
		"a Job starts": {nothing, creating, nil},
		"a Job starts after a wait": {object("", one("Ready", "False", "CredentialMissing", "Secret s is missing")),
			creating, []string{"SimMachine a Normal HostCreating The wait is over, and a Job creates the host"}},
		"a Job starts after the failures of others": {object("", one("Ready", "False", "BackOff", "until noon")),
			creating, []string{"SimMachine a Normal HostCreating The wait is over, and a Job creates the host"}},
		"a Job succeeds": {creating, object("", one("CreateJob", "True", "", "")),
			[]string{"Cluster demo Normal HostCreated The host of machine a was created"}},
		"a Job fails": {creating,
			object("secretKey=hunter2 refused", one("CreateJob", "False", "CreateError",
				"Creating SimMachine a failed: secretKey=hunter2 refused")),
			[]string{"SimMachine a Warning HostCreateFailed Creating SimMachine a failed: secretKey=*** refused"}},
		"a Job fails with another text": {creating,
			object("timeout", one("CreateJob", "False", "CreateError", "secretKey=hunter2 refused")),
			[]string{"SimMachine a Warning HostCreateFailed secretKey=*** refused"}},
		"a Job removes": {nothing, object("", one("DeleteJob", "Unknown", "Deleting", "")),
			[]string{"Cluster demo Normal HostDeleting A Job removes the host of machine a"}},
		"a removal fails": {nothing, object("timeout", one("DeleteJob", "False", "DeleteError", "x")),
			[]string{"SimMachine a Warning HostDeleteFailed DeleteError: timeout"}},
		"no credential": {nothing, object("", one("Ready", "False", "CredentialMissing", "Secret s is missing")),
			[]string{
				"SimMachine a Warning HostBlocked CredentialMissing: Secret s is missing",
			}},
		"a denied credential": {nothing,
			object("", one("Ready", "False", "AccessDenied", "Secret other/s may not be used")), []string{
				"SimMachine a Warning HostBlocked AccessDenied: Secret other/s may not be used",
			}},
		"it is being created": {nothing,
			object("", one("Ready", "False", "Creating", "Creating SimMachine a: ImagePullBackOff")), nil},
		"no change": {creating, creating, nil},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, InfrastructureChanged(build.Cluster("demo"), tc.before, tc.after), tc.want...)
		})
	}
}

func TestDriverChanged(t *testing.T) {
	driver := func(downloaded, installed, message string) *mgmtv3.NodeDriver {
		d := &mgmtv3.NodeDriver{}
		d.Name = "sim"
		with(&d.Status.Conditions, mgmtv3.NodeDriverConditionDownloaded, downloaded, "Error", message)
		with(&d.Status.Conditions, mgmtv3.NodeDriverConditionInstalled, installed, "Error", message)
		return d
	}
	expect(t, DriverChanged(&mgmtv3.NodeDriver{}, driver("False", "False", "no such host")),
		"NodeDriver sim Warning DriverFailed no such host")
	expect(t, DriverChanged(driver("False", "False", "no"), driver("True", "True", "")),
		"NodeDriver sim Normal DriverInstalled The driver is installed")
	expect(t, DriverChanged(driver("True", "True", ""), driver("True", "True", "")))
}

// A message is never longer than the API server accepts, and never ends within a letter.
func TestBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 3*MaxMessage, -1).Draw(t, "text")
		got := bounded(text)
		if len(got) > MaxMessage || !utf8.ValidString(got) && utf8.ValidString(text) {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		if len(text) <= MaxMessage && got != text || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
