package fleetcluster

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	// reasonTaken means that another Fleet Cluster has the name.
	reasonTaken = "FleetClusterTaken"
	// reasonWorkspace means that the Cluster cannot be in the workspace that it asks for.
	reasonWorkspace = "FleetWorkspaceRefused"
)

// fillsSoon is the retry interval while the cache of Fleet Clusters is filled.
const fillsSoon = 2 * time.Second

// step is what happens to the Fleet Cluster.
type step int

const (
	// ignore changes nothing, not even the condition.
	ignore step = iota
	// keep leaves the Fleet Cluster as it is, or does not create it yet.
	keep
	// create makes the Fleet Cluster, whose name no object has.
	create
	// update brings the Fleet Cluster up to date.
	update
)

type decision struct {
	step step
	// end is the problem that the condition shows.
	end error
	// after is the time until the next look without an event.
	after time.Duration
}

func (f *Facts) decide() decision {
	if f.isIgnored() {
		return decision{step: ignore}
	}
	switch f.fleet {
	case clients.Absent:
		return decision{step: keep, end: f.withoutFleet()}
	case clients.Filling:
		return decision{step: ignore, after: fillsSoon}
	case clients.Served:
	}
	if f.management == nil {
		return decision{step: ignore} // its event requeues the Cluster
	}
	if end := f.elsewhere(); end != nil {
		return decision{step: keep, end: end}
	}
	switch {
	case f.existing == nil && f.isReady():
		return decision{step: create}
	case f.existing == nil || f.existing.GetDeletionTimestamp() != nil:
		return decision{step: keep} // an event of one of the facts requeues the Cluster
	case !applyset.Marked(f.existing, handlerName, clusterKind, f.cluster.Namespace, f.cluster.Name):
		return decision{step: keep, end: f.taken()}
	}
	return decision{step: update}
}

// isIgnored reports whether Drover neither makes nor changes a Fleet Cluster for the Cluster.
func (f *Facts) isIgnored() bool {
	return !f.cluster.DeletionTimestamp.IsZero() || !topology.HasOwnManagement(f.cluster) ||
		isTruthy(f.cluster.Annotations[provv1.ExternallyManagedAnnotation])
}

// isReady reports whether Fleet can install its agent: the cluster works, and its kubeconfig exists.
func (f *Facts) isReady() bool {
	return f.cluster.Status.ClientSecretName != "" && f.hasKubeconfig &&
		conditions.IsTrue(f.management.Status.Conditions, mgmtv3.ClusterConditionReady)
}

// withoutFleet returns the warning about the field that only Fleet uses.
func (f *Facts) withoutFleet() error {
	if f.cluster.Spec.FleetAgentDeploymentCustomization == nil {
		return nil
	}
	return outcome.Stall(topology.ReasonWithoutEffect, "spec.fleetAgentDeploymentCustomization: has no effect: "+
		"Fleet is "+
		"not installed here; install Fleet, or remove the field")
}

// elsewhere returns why a Cluster cannot be in a workspace that is not its own namespace, nil if it can.
func (f *Facts) elsewhere() error {
	workspace, own := topology.Workspace(f.cluster), f.cluster.Namespace
	at := "metadata.annotations[" + provv1.FleetWorkspaceNameAnnotation + "]: "
	switch {
	case workspace == own:
		return nil
	case !fleet.ReadsSecrets(own, workspace):
		return outcome.Stall(reasonWorkspace, fmt.Sprintf("%sFleet does not read kubeconfigs of namespace %s for "+
			"workspace %s; remove the annotation, or create the Cluster in namespace %s or %s", at, own, workspace,
			workspace, provv1.DefaultWorkspaceNamespace))
	case f.workspace == nil:
		return outcome.Wait("", fmt.Sprintf("%sWaiting for namespace %s, which does not exist", at, workspace),
			"Namespace")
	case !tenancy.Offered(f.workspace.Annotations, types.NamespacedName{Namespace: own, Name: f.cluster.Name}):
		return outcome.Stall(reasonWorkspace, fmt.Sprintf("%snamespace %s does not admit the Cluster: list %s/%s in "+
			"annotation %s of Namespace %s, or remove the annotation", at, workspace, own, f.cluster.Name,
			rkev1.AuthorizedObjectAnnotation, workspace))
	}
	return nil
}

func (f *Facts) taken() error { return taken(topology.Workspace(f.cluster), f.cluster.Name) }

func taken(namespace, name string) error {
	return outcome.Stall(reasonTaken, fmt.Sprintf("Fleet Cluster %s/%s exists, and Drover did not make it for this "+
		"Cluster: delete or rename it, or choose another name for the Cluster", namespace, name))
}

func isTruthy(value string) bool { return value != "" && !strings.EqualFold(value, "false") }
