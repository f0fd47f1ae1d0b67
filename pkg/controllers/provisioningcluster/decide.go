package provisioningcluster

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

const (
	// claimRetry is the retry delay for a new cluster while another manager runs, because its end causes no event.
	claimRetry = time.Minute
	// servedSoon is the retry delay until a kind is served, because filling a cache causes no event.
	servedSoon = 250 * time.Millisecond
	// cachesFill is how long a new process may need to fill the caches of existing kinds.
	cachesFill = time.Minute
)

// clusterKind is the kind of the owner of a cluster's sets.
var clusterKind = provv1.SchemeGroupVersion.WithKind("Cluster")

// step is what a pass does with a Cluster.
type step int

const (
	// leave writes nothing.
	leave step = iota
	// remove deletes the objects of the Cluster, and then releases it.
	remove
	// hold claims the Cluster and keeps its identity, but does not translate its spec.
	hold
	// translate claims the Cluster, names it, and makes its objects.
	translate
)

// decision is the result of decide.
type decision struct {
	step step
	// end says why a Cluster is on hold. A wait that is usually short has no end, because users need not know.
	end error
	// told lists the problems for which safe values are used.
	told field.ErrorList
	// after is the time until the next pass without an event, zero for none.
	after time.Duration
}

// decide returns what to do with a Cluster.
func (f *Facts) decide(instanceID string) decision {
	cluster := f.input.Cluster
	owner := topology.Owner(cluster, instanceID, f.hasChildren())
	switch {
	case owner == topology.Foreign:
		return decision{step: leave}
	case owner == topology.Unclaimed && f.rival != "":
		return decision{step: leave, after: claimRetry}
	case !cluster.DeletionTimestamp.IsZero():
		return decision{step: remove}
	case !topology.HasOwnManagement(cluster):
		return decision{step: leave}
	}
	d := f.judge()
	if d.step == hold && d.end == nil && cluster.Status.ClusterName == "" {
		d.step = leave // there is no identity to keep
	}
	return d
}

// judge decides whether the spec can be translated.
func (f *Facts) judge() decision {
	problems, told := Problems(f.input, f.controlPlane != nil)
	problems = append(problems, f.newlyTolerated(told)...)
	d := decision{step: hold, told: told}
	switch {
	case len(f.unrestorable) > 0:
		d.end = outcome.Stall(reasonInvalid, topology.Explain(f.unrestorable))
	case len(f.unserved) > 0:
		if d.end = f.waitForKinds(); d.end == nil {
			d.after = servedSoon
		}
	case f.unknown && f.unanswered != "":
		d.end = outcome.Wait("", f.unanswered, "answer of access")
	case f.unknown: // the answer wakes the cluster
	case len(f.denied) > 0:
		d.end = f.refused(tenancy.ReasonAccessDenied, append(slices.Clone(f.denied), problems...))
	case len(problems) > 0:
		d.end = f.refused(reasonInvalid, problems)
	default:
		d.step = translate
	}
	return d
}

// waitForKinds waits for kinds that are new, or whose cache a new process has not filled yet. In the second case it
// returns nil, so that the earlier conditions stay.
func (f *Facts) waitForKinds() error {
	said := conditions.Get(f.input.Cluster.Status.Conditions, provv1.ConditionRKECluster)
	if f.controlPlane != nil || said != nil && (f.starting || said.Status == rkev1.ConditionTrue) {
		return nil
	}
	return outcome.WaitFor("", "Waiting for kind "+f.unserved[0]+" to be served", "timer", servedSoon)
}

// alone reports whether there is a control plane that no other controller deletes. There is no CAPI Cluster, or it
// belongs to another owner and is not deleted with this cluster.
func (f *Facts) alone() bool {
	if f.capiCluster == nil {
		return f.controlPlane != nil && len(f.machines) == 0
	}
	return f.controlPlane != nil && !goes(f.input.Cluster, f.capiCluster)
}

// inSet reports whether the object was made for the cluster.
func inSet(cluster *provv1.Cluster, object metav1.Object) bool {
	return applyset.Marked(object, handlerName, clusterKind, cluster.Namespace, cluster.Name)
}

// goes reports whether the object is being deleted, or will be deleted with the cluster.
func goes(cluster *provv1.Cluster, object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil || inSet(cluster, object)
}
