package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// machineLinks lead from a Machine to its node.
func (w *World) machineLinks(m *Machine) []Link {
	if m.DeletionTimestamp != nil {
		return w.removalLinks(m)
	}
	if w.deleting() {
		return []Link{link(LinkMachine, "Machine "+m.Name)} // other machines are deleted first
	}
	return []Link{w.machine(m), w.bootstrap(m), w.host(m), w.job(m), w.saidOf(m, w.plan(m)),
		w.saidOf(m, w.agent(m)), w.saidOf(m, w.node(m))}
}

// saidOf gives a link of a machine the sentence in which the Cluster's condition Ready names that machine.
func (w *World) saidOf(m *Machine, l Link) Link {
	ready := conditions.Get(w.Cluster.Status.Conditions, conditionReady)
	if ready != nil && ready.Status != rkev1.ConditionTrue && strings.Contains(ready.Message, m.Name) {
		l.Says = ready.Message
	}
	return l
}

func (w *World) machine(m *Machine) Link {
	l := link(LinkMachine, "Machine "+w.Namespace+"/"+m.Name)
	if _, paused := m.Annotations[clusterv1.PausedAnnotation]; paused {
		return l.broken("a user has paused it", "remove the annotation "+clusterv1.PausedAnnotation+
			" away").until("the end of the pause", "Machine")
	}
	if strings.EqualFold(m.Annotations[rkev1.RollOutSkipAnnotation], "true") {
		return l.broken("a user has excluded it from rollouts", "remove the annotation "+rkev1.RollOutSkipAnnotation+
			" away").until("the annotation", "Machine")
	}
	return l
}

// ours reports whether the machine's bootstrap data are Drover's.
func (m *Machine) ours() bool { return m.Spec.Bootstrap.ConfigRef.Kind == "RKEBootstrap" }

func (w *World) bootstrap(m *Machine) Link {
	name := m.Spec.Bootstrap.ConfigRef.Name
	l := link(LinkBootstrap, "RKEBootstrap "+w.Namespace+"/"+name)
	if !m.ours() {
		l.Object = m.Spec.Bootstrap.ConfigRef.Kind + " " + name
		return l
	}
	if m.Bootstrap == nil {
		return l.waiting(w, "it does not exist", m.CreationTimestamp.Time, briefly,
			w.get("machines.cluster.x-k8s.io", m.Name)).
			until("Cluster API's core", "MachineSet")
	}
	ready := conditions.GetMeta(m.Bootstrap.Status.Conditions, rkev1.ConditionReady)
	switch {
	case ready != nil && ready.Status == metav1.ConditionFalse:
		return l.broken("Drover cannot create the machine's bootstrap data",
			"correct the fields in the message").ofMeta(ready).until("a change", "Cluster", "RKEControlPlane")
	case m.Bootstrap.Status.DataSecretName == nil:
		return l.waiting(w, "the machine has no bootstrap data yet", m.Bootstrap.CreationTimestamp.Time, briefly,
			serverLogs()).
			ofEvent(w.lastWarning("RKEBootstrap", name)).until("the server", "Machine", "RKEControlPlane",
			"ServiceAccount", "Secret (token)")
	}
	return l
}

// keepFailed says how to keep a failed machine for an examination.
const keepFailed = "to keep failed machines longer, set --delete-machine-on-failure-after of the server"

// failed copies why a host could not be created, as the Event about it says.
func (l Link) failed(host *Host) Link {
	ready := conditions.Get(host.Status.Conditions, rkev1.ConditionReady)
	if ready == nil || ready.Reason != rkev1.ReasonCreateError {
		return l.because(host.Status.FailureReason, machinejob.Shown(host.Status.FailureMessage))
	}
	l = l.saying(ready)
	l.Why = machinejob.ShownIn(l.Why, host.Status.FailureMessage)
	l.Says = l.Why
	return l
}

// hostReady reports whether the machine has a node, or its infrastructure provider reports the host as ready.
func (m *Machine) hostReady() bool {
	return m.Status.NodeRef.Name != "" ||
		conditions.IsTrueMeta(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
}

func (w *World) host(m *Machine) Link {
	ref := m.Spec.InfrastructureRef
	l := link(LinkHost, ref.Kind+" "+w.Namespace+"/"+ref.Name)
	if m.Host == nil {
		if why := w.Unread["machines of drivers"]; why != "" {
			return l.unknown(why)
		}
		return l.waiting(w, "it does not exist", m.CreationTimestamp.Time, briefly,
			w.get("machines.cluster.x-k8s.io", m.Name)).until("Cluster API's core", "MachineSet")
	}
	if !m.Host.Driven {
		return w.foreignHost(m, l)
	}
	return drivenHost(w, m, l)
}

// drivenHost checks a host that a node driver creates.
func drivenHost(w *World, m *Machine, l Link) Link {
	ref := m.Spec.InfrastructureRef
	ready := conditions.Get(m.Host.Status.Conditions, rkev1.ConditionReady)
	_, paused := m.Host.Annotations[clusterv1.PausedAnnotation]
	switch {
	case m.hostReady():
		return l
	case paused:
		return l.broken("a user has paused it", "remove the annotation "+clusterv1.PausedAnnotation+
			" away").until("the end of the pause", ref.Kind)
	case ready != nil && machinejob.Blocked(ready.Reason):
		return l.broken("Drover cannot create the host", "create the objects in the message").saying(ready).until(
			"the next attempt", "timer")
	case ready != nil && ready.Reason == machinejob.ReasonBackOff:
		return l.broken("other machines of its pool failed, so the creation of the host waits",
			"fix the cause in the message; Drover then creates the next machine", keepFailed).saying(ready).until(
			"the turn of the pool", "timer")
	case m.Host.Status.FailureReason != "" && m.Job == nil:
		return l.broken("the creation of the host failed", "see the message; a new machine replaces this one",
			keepFailed).failed(m.Host).until("the deletion of the Machine", "Machine")
	case conditions.Get(m.Host.Status.Conditions, rkev1.ConditionCreateJob) == nil:
		return l.waiting(w, "the creation of the host has not started", m.Host.CreationTimestamp.Time, briefly,
			w.get(ref.Kind, ref.Name), serverLogs()).
			ofEvent(w.lastWarning(m.Host.Kind, m.Host.Name)).until("the server", "Machine", "Cluster (CAPI)")
	}
	return l
}

// foreignHost checks a host of another provider, or a host that a user registered.
func (w *World) foreignHost(m *Machine, l Link) Link {
	if m.hostReady() {
		return l
	}
	return l.waiting(w, "the host is not ready", m.Host.CreationTimestamp.Time, patiently,
		w.get(m.Host.Kind, m.Host.Name)).
		ofMeta(conditions.GetMeta(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)).until(
		"its provider, or the host's agent", m.Host.Kind)
}

func (w *World) job(m *Machine) Link {
	if m.Host == nil || !m.Host.Driven || m.hostReady() {
		return link(LinkJob, "Job of "+m.Name)
	}
	return w.jobOf(m, "create the host")
}

// jobOf checks the progress of a host's Job.
func (w *World) jobOf(m *Machine, purpose string) Link {
	name := m.Host.Status.JobName
	if m.Job != nil {
		name = m.Job.Name
	}
	l := link(LinkJob, "Job "+w.Namespace+"/"+name)
	logs := fmt.Sprintf("see its output: kubectl -n %s logs job/%s", w.Namespace, name)
	describe := w.get("job", name)
	if m.Job == nil {
		if why := w.Unread["jobs"]; why != "" {
			return l.unknown(why)
		}
		return l.waiting(w, "the Job to "+purpose+" does not exist", m.Host.CreationTimestamp.Time, briefly,
			w.get(m.Host.Kind, m.Host.Name), serverLogs()).
			of(conditions.Get(m.Host.Status.Conditions, rkev1.ConditionReady)).until("the server", "Job")
	}
	observed, pod := machinejob.Observe(m.Job, m.Pods), newest(m.Pods)
	started := m.Job.CreationTimestamp.Time
	switch {
	case observed.Phase == machinejob.PhaseFailed:
		what := "the Job to " + purpose + " failed"
		if code := exitCode(pod); code != 0 {
			what += fmt.Sprintf(" with exit code %d", code)
		}
		l = l.broken(what, logs,
			"fix the cause that the output shows; a new machine replaces one whose creation failed").
			because(rkev1.ReasonCreateError, observed.Message)
		if m.Host.Status.FailureReason == rkev1.ReasonCreateError {
			l = l.failed(m.Host)
		}
		return l.since(observed.Ended).until("the deletion of the Machine, or the next attempt", "Machine", "timer")
	case observed.Phase == machinejob.PhaseSucceeded:
		return l.waiting(w, "the host was created, but its ID is not known yet", observed.Ended, briefly,
			w.get(m.Host.Kind, m.Host.Name), serverLogs()).
			until("the ID of the host", "Secret (state)", "Secret (plan)")
	case pod == nil:
		l = l.waiting(w, "the Job to "+purpose+" has no pod", started, briefly, describe).until("the pod", "Pod", "Job")
		if e := w.lastWarning("Job", m.Job.Name); e != nil {
			l = l.broken(l.What, describe).because(e.Reason, e.Message).since(e.Last)
		}
		return l
	case observed.Message != "":
		reason, why, _ := strings.Cut(observed.Message, ": ")
		return l.broken("the pod "+pod.Name+" does not start", w.get("pod", pod.Name)).because(reason,
			why).since(pod.CreationTimestamp.Time).
			until("the pod", "Pod")
	}
	return l.waiting(w, "the Job to "+purpose+" runs", started, patiently, logs).
		of(conditions.Get(m.Host.Status.Conditions, rkev1.ConditionReady)).until("the end of the Job", "Job",
		"Pod").since(started)
}

func exitCode(pod *corev1.Pod) int32 {
	if pod == nil {
		return 0
	}
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ended.ExitCode
		}
	}
	return 0
}

func (w *World) node(m *Machine) Link {
	l := link(LinkNode, "Node of "+m.Name)
	if m.Status.NodeRef.Name != "" {
		l.Object = "Node " + m.Status.NodeRef.Name
	}
	healthy := conditions.GetMeta(m.Status.Conditions, clusterv1.MachineNodeHealthyCondition)
	if m.Status.NodeRef.Name == "" {
		since := m.CreationTimestamp.Time
		if m.Known != nil && m.Known.Plan != nil && !m.Known.Plan.DeliveredAt.IsZero() {
			since = m.Known.Plan.DeliveredAt
		}
		return l.waiting(w, "its node does not exist yet", since, patiently,
			"see the distribution's log on the host: journalctl -u rke2-server -u rke2-agent -u k3s -u k3s-agent",
			w.explain()).
			ofMeta(healthy).until("the node", "Machine", "Node").since(since)
	}
	do := []string{"check that the host runs and reaches the servers of the cluster",
		"see the node: kubectl --kubeconfig FILE describe node " + m.Status.NodeRef.Name}
	if m.Known != nil && !m.Known.NodeLostSince.IsZero() {
		return l.broken("the node has stopped reporting", do...).ofMeta(healthy).since(m.Known.NodeLostSince).
			until("the node, or a machine health check that replaces the machine", "Machine", "Node")
	}
	if healthy != nil && healthy.Status == metav1.ConditionFalse {
		return l.broken("the node is not healthy", do[1:]...).ofMeta(healthy).until("the node", "Machine", "Node")
	}
	if healthy != nil && healthy.Status == metav1.ConditionUnknown {
		return l.unknown(healthy.Message)
	}
	return l
}

// sooner returns the earlier of the known times.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
