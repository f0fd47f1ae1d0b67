package diagnose

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

// fault breaks one link.
type fault struct {
	name string
	// branch is the title of the branch in which link is then the first broken link.
	branch string
	link   Name
	state  State
	breaks func(w *World)
}

// trunk is the branch that all others depend on.
const trunk = "Cluster fleet-default/demo"

// faults are in the order of the links: first the trunk, then the branches.
var faults = []fault{
	{"kinds that are not served", trunk, LinkDefinitions, Broken, func(w *World) {
		w.MissingKinds = []string{"RKEBootstrap"}
	}},
	{"a webhook without pods", trunk, LinkAdmission, Broken, func(w *World) {
		w.Webhooks = []Webhook{{Name: "ValidatingWebhookConfiguration guard, webhook guard.example.com",
			Problem: "Service guard/guard has no ready endpoints"}}
	}},
	{"a clock ahead", trunk, LinkClock, Broken, func(w *World) {
		w.Lease = w.Lease.DeepCopy()
		w.Lease.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(at(noon.Add(-time.Second)))}}
		w.Lease.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(4 * time.Minute)}
	}},
	{"a lost leader", trunk, LinkLeader, Broken, func(w *World) {
		w.Lease.Spec.RenewTime = &metav1.MicroTime{Time: w.Lease.Spec.RenewTime.Add(-5 * time.Minute)}
		for i := range w.Lease.ManagedFields {
			w.Lease.ManagedFields[i].Time = new(at(w.Lease.ManagedFields[i].Time.Add(-5 * time.Minute)))
		}
	}},
	{"a cluster of another instance", trunk, LinkOwner, Broken, func(w *World) {
		w.Cluster.Annotations[rkev1.InstanceAnnotation] = "elsewhere"
	}},
	{"a missing credential", trunk, LinkCredential, Broken, func(w *World) { w.Credentials[0].Exists = false }},
	{"a rejected credential", trunk, LinkCredential, Broken, func(w *World) {
		w.Cluster.Status.Conditions = append(w.Cluster.Status.Conditions, condition("CloudCredentialValid", "False",
			"CredentialRejected", "Secret fleet-default/aws: EC2 does not accept the access key"))
	}},
	{"an inactive driver", trunk, LinkDriver, Broken, func(w *World) { w.Drivers[0].Driver.Spec.Active = false }},
	{"an invalid spec", trunk, LinkCluster, Broken, func(w *World) {
		w.Cluster.Status.Conditions[1] = condition("RKECluster", "False", "InvalidSpec",
			"spec.kubernetesVersion: Required value")
	}},
	{"a missing management cluster", trunk, LinkManagement, Broken, func(w *World) {
		w.Management, w.Cluster.Status.ClusterName = nil, ""
	}},
	{"without a core", trunk, LinkCore, Broken, func(w *World) {
		w.Core.Status.ObservedGeneration, w.Core.Status.Conditions = 0, nil
	}},
	{"a pause", trunk, LinkPause, Broken, func(w *World) { w.Core.Spec.Paused = new(true) }},
	{"infrastructure that is not ready", trunk, LinkInfrastructure, Broken, func(w *World) {
		w.Core.Status.Initialization.InfrastructureProvisioned = nil
	}},
	{"lost tokens", trunk, LinkConfiguration, Broken, func(w *World) {
		w.Decision.Wait = &planner.ExplainedWait{Reason: planner.ReasonTokensLost, Message: "The join tokens are lost",
			Wakes: []planner.Wake{planner.WakeStateSecret}, NeedsPerson: true}
	}},

	{"a pool without a MachineDeployment", "Pool servers", LinkPool, Broken, func(w *World) {
		w.Deployments = w.Deployments[1:]
	}},
	{"quota", "Pool servers", LinkMachines, Broken, func(w *World) {
		if d := w.deployment("servers"); d != nil {
			d.Spec.Replicas = new(int32(2))
		}
		w.Events = append(w.Events, Event{Kind: "MachineSet", Name: "demo-servers-x", Reason: "FailedCreate",
			Message: "exceeded quota: few, requested: 1", Last: noon})
	}},
	{"an excluded machine", "Machine s-1", LinkMachine, Broken, func(w *World) {
		w.of("s-1").Annotations = map[string]string{rkev1.RollOutSkipAnnotation: "true"}
	}},
	{"invalid bootstrap data", "Machine s-1", LinkBootstrap, Broken, func(w *World) {
		w.of("s-1").Bootstrap.Status.Conditions = []metav1.Condition{meta("Ready", "False", "BadInput",
			"spec.agentEnvVars: no shell can have variables with the names [\"a b\"]")}
	}},
	{"a host without its credential", "Machine s-1", LinkHost, Broken, func(w *World) {
		w.of("s-1").unhosted()
		w.of("s-1").Job = nil
		w.of("s-1").Host.Status.Conditions = []rkev1.GenericCondition{condition("Ready", "False", "CredentialMissing",
			"Secret fleet-default/cloud, the cloud credential of the machine, does not exist")}
	}},
	{"a failed Job", "Machine s-1", LinkJob, Broken, func(w *World) {
		m := w.of("s-1")
		m.unhosted()
		m.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue,
			LastTransitionTime: at(noon.Add(-time.Minute))}}
		m.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
				Message: "quota of instances reached, password: hunter2"},
		}}}
	}},
	{"an invalid plan Secret", "Machine s-1", LinkPlan, Broken, func(w *World) {
		w.of("s-1").Known.Plan.Malformed = "plan of Secret fleet-default/s-1-machine-plan is not JSON"
	}},
	{"an instruction that fails", "Machine s-1", LinkAgent, Broken, func(w *World) {
		w.of("s-1").unplanned()
		state := &w.of("s-1").Known.Plan.State
		state.FailureCount, state.FailedChecksum, state.Failed, state.MaxFailures = 100, "c", true, 100
		state.FailedOutput = map[string][]byte{
			nodeplan.OutputFailure: nodeplan.Failure{Instruction: "install", ExitCode: 7}.Encode(),
			"install":              []byte("curl: no route to host, with token: K10aaaaaaaaaa::server:abc"),
		}
	}},
	{"a lost node", "Machine s-1", LinkNode, Broken, func(w *World) {
		w.of("s-1").Known.NodeLostSince = noon.Add(-10 * time.Minute)
		w.of("s-1").Status.Conditions = append(w.of("s-1").Status.Conditions[:0:0],
			meta("NodeHealthy", "Unknown", "NodeUnhealthy", "Node.Ready: Kubelet stopped posting node status"))
		w.of("s-1").Status.NodeRef.Name = "node-s-1"
	}},
	{"an image that cannot be pulled", "Machine w-1", LinkJob, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: `Back-off pulling image "rancher/machine:none"`},
		}}}
	}},
	{"an agent that never connected", "Machine w-1", LinkAgent, Broken, func(w *World) {
		w.of("w-1").unplanned()
		w.of("w-1").Known.Plan.DeliveredAt = noon.Add(-time.Hour)
		w.of("w-1").Labels[rkev1.MachineIDLabel], w.of("w-1").TokenUsed = "", time.Time{}
	}},
	{"a rollout that waits for a person", "Control plane", LinkRollout, Broken, func(w *World) {
		if w.Decision.Wait != nil {
			return // it waits for one thing only
		}
		w.Decision.Wait = &planner.ExplainedWait{Reason: planner.ReasonEtcdUnhealthy,
			Message: "etcd members do not answer", Wakes: []planner.Wake{planner.WakeMachine}, NeedsPerson: true}
	}},
	{"an unreachable API", "API", LinkConnection, Broken, func(w *World) {
		if w.Core.Status.ObservedGeneration == 0 {
			return // no core probes the connection
		}
		w.Core.Status.Conditions = []metav1.Condition{meta("RemoteConnectionProbe", "False", "ProbeFailed",
			"Remote connection probe failed: dial tcp 192.0.2.1:6443: i/o timeout")}
	}},
}

// others break the same links in other ways.
var others = []fault{
	{"no server so far", trunk, LinkLeader, Broken, func(w *World) { w.Lease, w.Instances = nil, nil }},
	{"a released lease", trunk, LinkLeader, Waiting, func(w *World) { w.Lease.Spec.HolderIdentity = new("") }},
	{"a clock behind", trunk, LinkClock, Broken, func(w *World) {
		w.Lease.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(at(noon))}}
		w.Lease.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(-time.Hour)}
	}},
	{"another instance leads", trunk, LinkOwner, Broken, func(w *World) { w.Leads = "elsewhere" }},
	{"machines of another manager", trunk, LinkOwner, Broken, func(w *World) { w.Cluster.Annotations = nil }},
	{"a released cluster", trunk, LinkOwner, Broken, func(w *World) {
		w.Cluster.Annotations, w.Machines = map[string]string{rkev1.ReleasedByAnnotation: "elsewhere"}, nil
	}},
	{"an unclaimed cluster", trunk, LinkOwner, Broken, func(w *World) { w.Cluster.Annotations, w.Machines = nil, nil }},
	{"a new cluster", trunk, LinkOwner, Waiting, func(w *World) {
		w.Cluster.Annotations, w.Machines, w.Cluster.CreationTimestamp = nil, nil, at(noon.Add(-time.Second))
	}},
	{"a refused new cluster", trunk, LinkCluster, Broken, func(w *World) {
		refused(w, condition("RKECluster", "False", "InvalidSpec", "spec.kubernetesVersion: Required value"))
	}},
	{"a new cluster that waits for a kind", trunk, LinkCluster, Broken, func(w *World) {
		refused(w, condition("RKECluster", "Unknown", "Waiting", "Waiting for kind SimConfig to be served"))
	}},
	{"a missing driver", trunk, LinkDriver, Broken, func(w *World) { w.Drivers[0].Driver = nil }},
	{"a missing provider", trunk, LinkDriver, Broken, func(w *World) {
		w.MissingProviders = []string{"AWSCluster.infrastructure.cluster.x-k8s.io"}
	}},
	{"a driver that is being downloaded", trunk, LinkDriver, Waiting, func(w *World) {
		w.Drivers[0].Driver.Status.AppliedURL, w.Drivers[0].Driver.CreationTimestamp = "", at(noon.Add(-time.Second))
	}},
	{"a driver that cannot be downloaded", trunk, LinkDriver, Broken, func(w *World) {
		w.Drivers[0].Driver.Status.Conditions = []rkev1.GenericCondition{condition("Downloaded", "False", "Error",
			"the checksum differs")}
	}},
	{"kinds of a driver", trunk, LinkDriver, Broken, func(w *World) {
		w.Drivers[0].MissingKinds = []string{"SimMachine"}
	}},
	{"without a CAPI Cluster", trunk, LinkCore, Broken, func(w *World) { w.Core = nil }},
	{"a pause by annotation", trunk, LinkPause, Broken, func(w *World) {
		w.ControlPlane.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}},
	{"without an RKECluster", trunk, LinkInfrastructure, Broken, func(w *World) { w.Infrastructure = nil }},
	{"without a control plane", trunk, LinkConfiguration, Broken, func(w *World) {
		w.ControlPlane, w.Decision = nil, nil
	}},
	{"a paused pool", "Pool workers", LinkPool, Broken, func(w *World) {
		w.Cluster.Spec.RKEConfig.MachinePools[0].Paused = true
	}},
	{"a machine in creation", "Pool workers", LinkMachines, Waiting, func(w *World) {
		w.Deployments[1].Spec.Replicas = new(int32(2))
		w.Deployments[1].Status.Conditions = []metav1.Condition{{Type: "ScalingUp", Status: "True",
			LastTransitionTime: at(noon.Add(-time.Second))}}
	}},
	{"without an RKEBootstrap", "Machine w-1", LinkBootstrap, Broken, func(w *World) { w.of("w-1").Bootstrap = nil }},
	{"without a host object", "Machine w-1", LinkHost, Broken, func(w *World) { w.of("w-1").Host = nil }},
	{"a host with a forbidden credential", "Machine w-1", LinkHost, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Job = nil
		w.of("w-1").Host.Status.Conditions = []rkev1.GenericCondition{condition("Ready", "False", "AccessDenied",
			"Secret other/cloud may not be used")}
	}},
	{"a failed host", "Machine w-1", LinkHost, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Job, w.of("w-1").Host.Status.FailureReason = nil, "CreateError"
	}},
	{"a host whose creation has not started", "Machine w-1", LinkHost, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Host.Status.Conditions = nil
	}},
	{"a host that waits after failures", "Machine w-1", LinkHost, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Job = nil
		w.of("w-1").Host.Status.Conditions = []rkev1.GenericCondition{condition("Ready", "False", "BackOff",
			"Creating SimMachine fleet-default/w-1 waits: the creation of the last machine of its pool failed: no quota")}
	}},
	{"a running Job", "Machine w-1", LinkJob, Waiting, func(w *World) { w.of("w-1").unhosted() }},
	{"a Job without a pod", "Machine w-1", LinkJob, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Pods = nil
		w.Events = []Event{{Kind: "Job", Name: "w-1-machine-provision", Reason: "FailedCreate",
			Message: "exceeded quota: pods", Last: noon}}
	}},
	{"an unschedulable pod", "Machine w-1", LinkJob, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled,
			Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
	}},
	{"a host without an ID", "Machine w-1", LinkJob, Broken, func(w *World) {
		w.of("w-1").unhosted()
		w.of("w-1").Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete,
			Status: corev1.ConditionTrue, LastTransitionTime: at(past)}}
	}},
	{"without a plan Secret", "Machine w-1", LinkPlan, Broken, func(w *World) { w.of("w-1").Known.Plan = nil }},
	{"an agent before its first connection", "Machine w-1", LinkAgent, Waiting, func(w *World) {
		w.of("w-1").unplanned()
		w.of("w-1").Labels[rkev1.MachineIDLabel], w.of("w-1").TokenUsed = "", time.Time{}
	}},
	{"an agent that has stopped", "Machine w-1", LinkAgent, Broken, func(w *World) {
		w.of("w-1").Known.Plan.DeliveredAt = noon.Add(-time.Hour)
		w.of("w-1").Known.Plan.State.InSync, w.of("w-1").Known.Plan.State.AppliedChecksum = false, "former"
	}},
	{"a failing probe", "Machine w-1", LinkAgent, Broken, func(w *World) {
		w.of("w-1").Known.Plan.State.ProbeStatuses = nil
	}},
	{"a node that does not come up", "Machine w-1", LinkNode, Broken, func(w *World) {
		w.of("w-1").Status.NodeRef = clusterv1.MachineNodeReference{}
	}},
	{"an unhealthy node", "Machine w-1", LinkNode, Broken, func(w *World) {
		w.of("w-1").Status.Conditions[1] = meta("NodeHealthy", "False", "NodeUnhealthy", "DiskPressure")
	}},
	{"without a kubeconfig", "API", LinkKubeconfig, Broken, func(w *World) { w.Kubeconfig = false }},
	{"an agent that never connected", "API", LinkKubeconfig, Broken, func(w *World) {
		w.Kubeconfig, w.ReachedByAgent = false, true
	}},
	{"an API that never answered", "API", LinkConnection, Broken, func(w *World) {
		w.Management.Status.Conditions, w.Core.Status.Conditions = nil, nil
	}},
	{"a cluster that is not ready", "API", LinkReady, Broken, func(w *World) {
		w.Cluster.Status.Conditions[2] = condition("Ready", "Unknown", "Waiting", "configuring")
	}},
}

// refused marks the cluster as claimed, with a spec that was never translated.
func refused(w *World, translated rkev1.GenericCondition) {
	w.Cluster.Status.ClusterName, w.Cluster.Status.Ready = "", false
	created := condition("Created", "Unknown", "Waiting", "Waiting until the spec can be applied")
	w.Cluster.Status.Conditions = []rkev1.GenericCondition{created, translated}
	w.Management, w.Core, w.ControlPlane, w.Infrastructure, w.Decision = nil, nil, nil, nil, nil
	w.Machines, w.Deployments, w.Kubeconfig = nil, nil, false
}

// A refused cluster has a mark, so the report names the field and not a server that is missing.
func TestDiagnose_RefusedClusterNamesTheField(t *testing.T) {
	w := healthy()
	refused(&w, condition("RKECluster", "False", "InvalidSpec", "spec.kubernetesVersion: Required value"))
	found := Diagnose(w).Findings
	if len(found) != 1 || found[0].Reason != "InvalidSpec" || found[0].Why != "spec.kubernetesVersion: Required value" {
		t.Errorf("the findings are %+v", found)
	}
}

func TestDiagnose_HealthyClusterHasNoFindings(t *testing.T) {
	r := Diagnose(healthy())
	if r.Result != OK || len(r.Findings) > 0 || len(r.Notes) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestDiagnose_NamesTheBrokenLink(t *testing.T) {
	for _, f := range slices.Concat(faults, others) {
		t.Run(f.name, func(t *testing.T) {
			w := healthy()
			f.breaks(&w)
			r := Diagnose(w)
			if len(r.Findings) != 1 {
				t.Fatalf("the findings are %+v", r.Findings)
			}
			found := r.Findings[0]
			if got := found.Chain[len(found.Chain)-1]; got != f.branch || found.Name != f.link ||
				found.State != f.state || r.Result != f.state {
				t.Errorf("got %s of %s, %s; want %s of %s, %s", found.Name, got, found.State, f.link, f.branch, f.state)
			}
			if f.name == "a host with a forbidden credential" && found.What != "Drover cannot create the host" {
				t.Errorf("the message is %s", found.What)
			}
			if found.What == "" || f.state == Broken && len(found.Do) == 0 {
				t.Errorf("the finding has no message: %+v", found)
			}
		})
	}
}

// Diagnose never advises a user to mark a cluster by hand or to take another instance's name. Only drover adopt checks
// whether the former manager is alive.
func TestDiagnose_NeverAdvisesToMarkACluster(t *testing.T) {
	adopts := 0
	for _, f := range slices.Concat(faults, others) {
		w := healthy()
		f.breaks(&w)
		for _, found := range Diagnose(w).Findings {
			advice := strings.Join(found.Do, "\n")
			if strings.Contains(advice, rkev1.InstanceAnnotation) || strings.Contains(advice, "--instance-id=") {
				t.Errorf("%s: %s", f.name, advice)
			}
			adopts += strings.Count(advice, "drover adopt demo -n "+w.Namespace)
		}
	}
	if adopts != 4 {
		t.Errorf("%d findings name drover adopt, want it for clusters of other instances and managers, and for a "+
			"released cluster", adopts)
	}
}

// For every combination of faults, Diagnose names the first broken link of each chain, and nothing else.
func TestDiagnose_NamesTheFirstBrokenLinkOfEachChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := healthy()
		want, seen := []string{}, map[string]bool{}
		inTrunk, machines, seenHost := false, false, false
		drawn := rapid.SliceOfNDistinct(rapid.IntRange(0, len(faults)-1), 1, 6, rapid.ID[int]).Draw(t, "faults")
		if rapid.Bool().Draw(t, "the trunk works") {
			drawn = slices.DeleteFunc(drawn, func(i int) bool { return faults[i].branch == trunk })
		}
		slices.Sort(drawn)
		for _, i := range drawn {
			f := faults[i]
			if f.name == "a failed Job" && seenHost {
				continue // a host that cannot be created has no Job
			}
			if f.link == LinkNode && f.branch == "Machine s-1" && w.of("s-1").Status.NodeRef.Name == "" {
				continue // it also has no node
			}
			seenHost = seenHost || f.link == LinkHost
			f.breaks(&w)
			pool := strings.HasPrefix(f.branch, "Machine s-") && (seen["Pool servers"])
			switch {
			case inTrunk, seen[f.branch], pool, f.branch == "Control plane" && machines, f.branch == "API" && machines:
				continue
			}
			want = append(want, f.branch+": "+string(f.link))
			seen[f.branch] = true
			inTrunk = f.branch == trunk
			machines = machines || strings.HasPrefix(f.branch, "Machine ") || strings.HasPrefix(f.branch, "Pool ")
		}
		got := []string{}
		for _, found := range Diagnose(w).Findings {
			got = append(got, found.Chain[len(found.Chain)-1]+": "+string(found.Name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("findings (-want +got):\n%s", diff)
		}
	})
}

// A machine that waits for its turn is not a finding.
func TestDiagnose_MachineWaitsForItsTurn(t *testing.T) {
	w := healthy()
	w.of("s-1").unplanned()
	w.of("w-1").unplanned()
	w.of("w-1").Known.Plan.State.PlanExists = false
	w.Decision.Wait = &planner.ExplainedWait{Reason: planner.ReasonConfiguring,
		Message: "configuring bootstrap node(s) s-1", Wakes: []planner.Wake{planner.WakePlanSecret}}
	r := Diagnose(w)
	if len(r.Findings) != 1 || r.Findings[0].Object != "agent of s-1" || r.Result != Waiting {
		t.Errorf("%s, findings: %+v", r.Result, r.Findings)
	}
}

func TestDiagnose_ForbiddenReadsAreNotes(t *testing.T) {
	w := healthy()
	w.Unread = map[string]string{"leases": "leases is forbidden", "nodedrivers": "forbidden",
		"definitions": "forbidden"}
	w.Lease, w.Drivers, w.MissingKinds = nil, nil, []string{"Cluster"}
	r := Diagnose(w)
	want := []string{"cannot read definitions: forbidden", "cannot read leases: leases is forbidden",
		"cannot read nodedrivers: forbidden"}
	if diff := cmp.Diff(want, r.Notes); diff != "" || r.Result != OK {
		t.Errorf("%s, notes (-want +got):\n%s", r.Result, diff)
	}
}

// A webhook of Drover that the API server cannot call is a note. It breaks no link.
func TestDiagnose_SkippedWebhookOfDroverIsANote(t *testing.T) {
	w := healthy()
	w.Unasked = []Webhook{{Name: "ValidatingWebhookConfiguration drover, reference.admission.drover.io",
		Problem: "it has no authorities"}}
	r := Diagnose(w)
	if r.Result != OK || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "reference.admission.drover.io: it has no authorities") {
		t.Errorf("%s, notes: %v", r.Result, r.Notes)
	}
}

func TestPrint(t *testing.T) {
	secret := healthy()
	secret.Secrets.Add("correct-horse")
	several := healthy()
	for _, f := range faults {
		if slices.Contains([]string{"an instruction that fails", "an image that cannot be pulled",
			"a rollout that waits for a person"}, f.name) {
			f.breaks(&several)
		}
	}
	several.of("s-1").Known.Plan.State.FailedOutput["install"] = []byte("pulled as correct-horse, no route to host")
	several.Secrets = secret.Secrets
	pool, alone := healthy(), healthy()
	faults[3].breaks(&alone)
	pool.Cluster.Spec.RKEConfig.MachinePools[0].Paused = true
	pool.Unread = map[string]string{"webhooks": "forbidden"}
	for name, tc := range map[string]struct {
		w   World
		all bool
	}{
		"healthy": {healthy(), false}, "healthy-all": {healthy(), true}, "several": {several, false},
		"several-all": {several, true}, "leader": {alone, false}, "pool": {pool, false},
		"removal": {removed(), false},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := Diagnose(tc.w)
			r.Print(&out, tc.all)
			golden.Check(t, "testdata/print/"+name+".txt", out.String())
			if bytes.Contains(out.Bytes(), []byte("correct-horse")) {
				t.Error("the output contains a secret")
			}
		})
	}
}

// Each reason of a wait belongs to one link: "configuration" if no machine can end the wait, or another one.
func TestOwnReasons_CoverTheWaits(t *testing.T) {
	others := []planner.Reason{
		planner.ReasonCacheBehind, planner.ReasonPaused, planner.ReasonInfrastructure, planner.ReasonDeleting,
		planner.ReasonUninitializing,
		planner.ReasonEtcdDeleting, planner.ReasonEtcdStays, planner.ReasonEtcdUnhealthy, planner.ReasonNoInitNode,
		planner.ReasonInitNodeLost,
		planner.ReasonConfiguring, planner.ReasonDraining, planner.ReasonDrainOverdue, planner.ReasonUncordoning,
		planner.ReasonChangePending,
		planner.ReasonPoolPaused, planner.ReasonLeftOut, planner.ReasonJoinURL, planner.ReasonControlPlane,
		planner.ReasonMachinesUnhealthy,
		planner.ReasonOperation, planner.ReasonResuming, planner.ReasonUpgradingAgents,
	}
	for _, reason := range planner.Reasons() {
		if slices.Contains(ownReasons, reason) == slices.Contains(others, reason) {
			t.Errorf("%s must be in ownReasons if no machine can end the wait, and otherwise in this test", reason)
		}
	}
	for _, reason := range append(others, ownReasons...) {
		if !slices.Contains(planner.Reasons(), reason) {
			t.Errorf("%s is no reason of the planner", reason)
		}
	}
}
