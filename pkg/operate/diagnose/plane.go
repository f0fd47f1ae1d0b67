package diagnose

import (
	"fmt"
	"strings"
	"time"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// maxSkew is the largest accepted difference between the clocks of the server and the API server.
const maxSkew = 10 * time.Second

// defaultLease is the duration of a lease that does not state one.
const defaultLease = 15 * time.Second

// managementPlane returns the links that all clusters share.
func (w *World) managementPlane() []Link {
	return []Link{w.definitions(), w.admission(), w.clock(), w.leader()}
}

func (w *World) definitions() Link {
	l := link(LinkDefinitions, "CustomResourceDefinitions")
	if why := w.Unread["definitions"]; why != "" {
		return l.unknown(why)
	}
	if len(w.MissingKinds) == 0 {
		return l
	}
	return l.broken("the API server does not serve these kinds: "+strings.Join(w.MissingKinds, ", "),
		"install the chart drover-crd, or start the server with --crds=install",
		"look for conflicts: kubectl get crd -o wide").
		until("the CustomResourceDefinitions", "CustomResourceDefinition")
}

func (w *World) admission() Link {
	l := link(LinkAdmission, "webhooks for kinds of this cluster")
	if why := w.Unread["webhooks"]; why != "" {
		return l.unknown(why)
	}
	if len(w.Webhooks) == 0 {
		return l
	}
	first := w.Webhooks[0]
	l.Object = first.Name
	return l.broken("a webhook does not answer, so the API server refuses writes of this cluster's objects",
		"start its pods; see its Service and Endpoints", "or delete its configuration if no program needs it").because(
		"", first.Problem)
}

// clock compares the time that the leader wrote with the API server's time of that write.
func (w *World) clock() Link {
	l := link(LinkClock, "the server's clock")
	said, written := w.renewed()
	skew := said.Sub(written)
	if skew.Abs() <= maxSkew {
		return l
	}
	direction := "ahead of"
	if skew < 0 {
		direction = "behind"
	}
	return l.broken(
		fmt.Sprintf(
			"the clock of the leading server is %s %s the API server's clock: deadlines and certificates are wrong",
			skew.Abs().Round(time.Second), direction),
		"synchronise the clocks of the machines that run the server and the API server")
}

// renewed is when the leader last renewed its lease, by its own clock and by the API server's clock. Both are zero if
// no leader ever has.
func (w *World) renewed() (said, written time.Time) {
	if w.Lease == nil || w.Lease.Spec.RenewTime == nil {
		return said, written
	}
	said = w.Lease.Spec.RenewTime.Time
	for _, field := range w.Lease.ManagedFields {
		if field.Time != nil && field.Time.After(written) {
			written = field.Time.Time
		}
	}
	switch {
	case !written.IsZero():
	case said.After(w.Now): // a renewal cannot lie in the future
		written = w.Now
	default:
		written = said
	}
	return said, written
}

func (w *World) leader() Link {
	l := link(LinkLeader, "Lease drover-system/drover")
	if why := w.Unread["leases"]; why != "" {
		return l.unknown(why)
	}
	do := []string{
		"check that the server runs: kubectl -n drover-system get pods, or systemctl status of drover server"}
	if w.Lease == nil {
		if len(w.Instances) > 0 || w.Unread["settings"] != "" {
			return l // a single server holds no lease
		}
		return l.broken("no server has ever led here", do...).until("a server that takes the lease", "timer")
	}
	spec, duration := w.Lease.Spec, defaultLease
	if spec.LeaseDurationSeconds != nil {
		duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	holder := ""
	if spec.HolderIdentity != nil {
		holder = *spec.HolderIdentity
	}
	_, renewed := w.renewed()
	switch {
	case holder == "" && w.Now.Sub(renewed) <= duration+defaultLease:
		return l.waiting(w, "no server leads now", renewed, time.Minute,
			do...).until("another replica that takes the lease", "timer")
	case holder == "":
		return l.broken("no server leads: the last one released the lease",
			do...).since(renewed).until("a server that takes the lease", "timer")
	case w.Now.Sub(renewed) > duration:
		return l.broken("no server leads: "+holder+" has not renewed the lease", append(do, serverLogs())...).since(
			renewed.Add(duration)).
			until("a server that takes the lease", "timer")
	}
	return l
}

// api returns the links to the cluster's API.
func (w *World) api(machinesWork bool) []Link {
	if w.Cluster == nil {
		return nil
	}
	if w.Cluster.Spec.RKEConfig == nil && !w.Cluster.Status.Ready {
		return []Link{w.imported()}
	}
	return []Link{w.kubeconfig(machinesWork), w.connection(machinesWork), w.ready(machinesWork)}
}

// imported checks whether the agent of an imported cluster has ever connected.
func (w *World) imported() Link {
	id := w.Cluster.Status.ClusterName
	return link(LinkConnection, "management Cluster "+id).
		waiting(w, "the agent of the imported cluster has not connected yet", w.Cluster.CreationTimestamp.Time,
			patiently,
			"run the registration command with a kubeconfig of the imported cluster; docs/import.md says where its "+
				"token is: kubectl -n "+id+" get clusterregistrationtokens.management.cattle.io "+
				naming.DefaultRegistrationToken+" -o jsonpath='{.status.command}'",
			"see the agent in the imported cluster: kubectl logs -n cattle-system deployment/cattle-cluster-agent",
			"check that the imported cluster reaches the server: drover ping URL").
		saying(conditions.Get(w.Cluster.Status.Conditions, provv1.ConditionReconciling)).
		until("the agent's first connection", "agent")
}

// behind marks a link as Behind if broken machines explain its state.
func (l Link) behind(machinesWork bool) Link {
	if !machinesWork && l.held() {
		l.State = Behind
	}
	return l
}

func (w *World) kubeconfig(machinesWork bool) Link {
	l := link(LinkKubeconfig, "Secret "+w.Namespace+"/"+w.Name+"-kubeconfig")
	if w.Kubeconfig {
		return l
	}
	if why := w.Unread["secrets"]; why != "" {
		return l.unknown(why)
	}
	if w.ReachedByAgent {
		return l.waiting(w, "the agent inside the cluster has not connected yet", w.Cluster.CreationTimestamp.Time,
			patiently, w.explain(),
			"see the agent, on a server of the cluster: kubectl logs -n cattle-system deployment/cattle-cluster-agent",
			"check that servers of the cluster reach the server: drover ping URL").
			until("the agent's first connection", "agent").behind(machinesWork)
	}
	return l.waiting(w, "no server of the cluster has reported its kubeconfig", w.Cluster.CreationTimestamp.Time,
		patiently, w.explain(), serverLogs()).
		until("the report of the first server's agent", "Secret (plan)").behind(machinesWork)
}

func (w *World) connection(machinesWork bool) Link {
	l := link(LinkConnection, "management Cluster "+w.Cluster.Status.ClusterName)
	if w.Management == nil {
		return l
	}
	connected := conditions.Get(w.Management.Status.Conditions, conditionConnected)
	probe := w.coreCondition(conditionProbe)
	switch {
	case probe != nil && probe.Status == "False":
		return l.broken("Cluster API cannot reach the API of the cluster",
			"check that the server reaches the address in the kubeconfig: kubectl --kubeconfig FILE get --raw /readyz",
			"check load balancers and firewalls in front of port 6443 of the servers").ofMeta(probe).
			until("an answer of the API", "timer").behind(machinesWork)
	case connected == nil || connected.Status != "True":
		return l.waiting(w, "the API of the cluster has not answered yet", w.Cluster.CreationTimestamp.Time, patiently,
			"check that Drover's server reaches port 6443 of the cluster's servers", serverLogs()).of(connected).
			until("an answer of the API", "Cluster (CAPI)", "timer").behind(machinesWork)
	}
	return l
}

// ready reports the remaining wait when no other link explains it.
func (w *World) ready(machinesWork bool) Link {
	l := link(LinkReady, "Cluster "+w.Namespace+"/"+w.Name)
	c := conditions.Get(w.Cluster.Status.Conditions, conditionReady)
	if c == nil || c.Status == "True" {
		return l
	}
	return l.waiting(w, "the cluster is not ready", parse(c.LastUpdateTime), patiently, w.explain()).saying(c).
		until("the control plane", "RKEControlPlane").behind(machinesWork)
}
