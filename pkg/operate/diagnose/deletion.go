package diagnose

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// held lists the finalizers of an object, each with the program that removes it.
func held(finalizers []string) string {
	var out []string
	for _, f := range finalizers {
		remover, _ := topology.FinalizerRemover(f)
		out = append(out, f+" ("+remover+")")
	}
	return strings.Join(out, "; ")
}

// removalLinks are the links of a Machine that is being deleted: first the host, then the Machine.
func (w *World) removalLinks(m *Machine) []Link {
	return []Link{w.leaving(m), w.hostRemoval(m), w.machineRemoval(m)}
}

// leaving checks the machine's etcd member, which must leave before the host is removed.
func (w *World) leaving(m *Machine) Link {
	l := link(LinkMachine, "Machine "+w.Namespace+"/"+m.Name)
	if _, held := m.Annotations[rkev1.PreTerminateAnnotation]; !held {
		return l
	}
	l = l.waiting(w, "its etcd member has not left the cluster yet", m.DeletionTimestamp.Time, deletionDeadline,
		"follow the message, and check that etcd has a quorum and the node runs", w.explain(),
		"if the member is lost: annotate the RKEBootstrap "+m.Spec.Bootstrap.ConfigRef.Name+" "+
			rkev1.ForceRemoveEtcdAnnotation+
			"=true; if no other member works, its data are lost, and you must restore a snapshot on other machines").
		ofMeta(conditions.GetMeta(m.Status.Conditions, clusterv1.MachineDeletingCondition))
	if m.Bootstrap != nil {
		l = l.ofMeta(conditions.GetMeta(m.Bootstrap.Status.Conditions, rkev1.ConditionEtcdMemberLeft))
	}
	return l.until("Drover (bootstrap)", "Node", "Machine", "RKEBootstrap").since(m.DeletionTimestamp.Time)
}

func (w *World) hostRemoval(m *Machine) Link {
	ref := m.Spec.InfrastructureRef
	l := link(LinkHost, ref.Kind+" "+w.Namespace+"/"+ref.Name)
	if m.Host == nil || m.Host.DeletionTimestamp == nil {
		return l
	}
	if !m.Host.Driven {
		return l.waiting(w, "it is being deleted; its finalizers: "+held(m.Host.Finalizers),
			m.Host.DeletionTimestamp.Time, deletionDeadline, w.get(m.Host.Kind, m.Host.Name)).
			until("the owners of the finalizers", ref.Kind).since(m.Host.DeletionTimestamp.Time)
	}
	ready := conditions.Get(m.Host.Status.Conditions, rkev1.ConditionReady)
	failed := ready != nil && ready.Status == rkev1.ConditionFalse &&
		contains([]string{rkev1.ReasonDeleteError, machinejob.ReasonCredential, tenancy.ReasonAccessDenied,
			machinejob.ReasonUnconfirmed}, ready.Reason)
	if failed {
		return l.broken("the host cannot be removed", "fix the cause in the message; Drover retries within an hour",
			"or remove the host in the cloud yourself, then run: kubectl -n "+w.Namespace+" annotate "+
				strings.ToLower(ref.Kind)+" "+ref.Name+" "+rkev1.ForceMachineRemoveAnnotation+"=true").
			of(ready).until("the next attempt", "timer", "Secret (state)")
	}
	if m.Job != nil {
		return w.jobOf(m, "remove the host")
	}
	return l.waiting(w, "the host is being removed", m.Host.DeletionTimestamp.Time, deletionDeadline,
		w.get(ref.Kind, ref.Name), serverLogs()).
		of(ready).because("", "its finalizers: "+held(m.Host.Finalizers)).until("the end of the Job",
		"Job").since(m.Host.DeletionTimestamp.Time)
}

func (w *World) machineRemoval(m *Machine) Link {
	l := link(LinkDeletion, "Machine "+w.Namespace+"/"+m.Name)
	deleting := conditions.GetMeta(m.Status.Conditions, clusterv1.MachineDeletingCondition)
	l = l.waiting(w, "it is being deleted; its finalizers: "+held(m.Finalizers), m.DeletionTimestamp.Time,
		deletionDeadline,
		w.get("machines.cluster.x-k8s.io", m.Name),
		"see the objects that it waits for; do not remove finalizers by hand before the host is removed")
	return l.ofMeta(deleting).until("the owners of the finalizers", "Machine").since(m.DeletionTimestamp.Time)
}

// deletion reports what remains of a cluster that is being deleted, after its machines are gone.
func (w *World) deletion(machinesWork bool) Link {
	l := link(LinkDeletion, w.clusterName())
	since := w.Cluster.DeletionTimestamp.Time
	parts := map[string]metav1.ObjectMeta{l.Object: w.Cluster.ObjectMeta}
	if w.Core != nil {
		parts["CAPI Cluster "+w.Namespace+"/"+w.Name] = w.Core.ObjectMeta
	}
	if w.ControlPlane != nil {
		parts["RKEControlPlane "+w.Namespace+"/"+w.Name] = w.ControlPlane.ObjectMeta
	}
	if w.Infrastructure != nil {
		parts["RKECluster "+w.Namespace+"/"+w.Name] = w.Infrastructure.ObjectMeta
	}
	if w.Management != nil && w.Management.DeletionTimestamp != nil {
		parts["management Cluster "+w.Management.Name] = w.Management.ObjectMeta
	}
	var holds []string
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if meta := parts[name]; len(meta.Finalizers) > 0 {
			holds = append(holds, name+" has "+held(meta.Finalizers))
		}
	}
	l = l.waiting(w, "it is being deleted; finalizers: "+strings.Join(holds, ", "), since, deletionDeadline,
		serverLogs(),
		"look for remaining objects of the cluster: drover support-bundle lists them")
	if len(w.Machines) > 0 {
		l.What = "it is being deleted, and still has machines"
	}
	return l.of(conditions.Get(w.Cluster.Status.Conditions, provv1.ConditionRemoved)).until(
		"the owners of the finalizers", "Cluster", "CAPI Cluster", "Machine").
		since(since).behind(machinesWork)
}

func redactTail(output []byte, w *World) string { return redact.Tail(output, maxTail, w.Secrets) }
