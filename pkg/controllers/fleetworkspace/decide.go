package fleetworkspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	// reasonHeld means that clusters keep the namespace of a deleted FleetWorkspace.
	reasonHeld = "ClustersInWorkspace"
	// reasonExists means that the namespace existed before its FleetWorkspace.
	reasonExists = "NamespaceExists"
)

// fillsSoon is the retry interval while the cache of Fleet's objects is filled.
const fillsSoon = 2 * time.Second

// step is what happens to the namespace.
type step int

const (
	// leave changes nothing.
	leave step = iota
	// adopt makes a FleetWorkspace for the namespace, which Drover does not manage.
	adopt
	// release ends the protection of a FleetWorkspace whose namespace Drover does not manage, or no longer has.
	release
	// produce creates the namespace.
	produce
	// apply brings the namespace and the rights up to date.
	apply
	// purge deletes the namespace and the rights.
	purge
	// finish is purge, and then the end of the protection, because the cache shows no namespace to wait for.
	finish
)

type decision struct {
	step step
	// silent means that the condition does not change.
	silent bool
	// reason and message explain a True condition.
	reason, message string
	// end is the problem that the condition shows.
	end error
	// after is the time until the next look without an event.
	after time.Duration
}

func (f *Facts) decide() decision {
	switch {
	case f.workspace == nil:
		return f.withoutWorkspace()
	case !f.workspace.DeletionTimestamp.IsZero():
		return f.removal()
	case !fleet.IsManaged(f.workspace):
		return decision{step: release, silent: true}
	case f.namespace != nil && !f.isMade:
		return decision{step: release, reason: reasonExists, message: "Namespace " + f.name +
			" existed before the FleetWorkspace: Drover does not change or delete it"}
	case f.isMade && f.namespace.DeletionTimestamp != nil:
		return decision{end: outcome.Wait("", "Waiting until namespace "+f.name+" is deleted, to create it again",
			"Namespace")}
	case f.isMade:
		return decision{step: apply}
	}
	return f.creation()
}

// creation decides about a FleetWorkspace without a namespace.
func (f *Facts) creation() decision {
	if problems := validation.IsDNS1123Label(f.name); len(problems) > 0 {
		return decision{end: outcome.Stall("", "metadata.name: must be a name of a namespace: "+
			strings.Join(problems, "; "))}
	}
	switch f.fleet {
	case clients.Absent:
		return decision{end: outcome.Wait("", "Waiting for Fleet: CRD "+fleet.Definition+" is not established",
			"CustomResourceDefinition")}
	case clients.Filling:
		return decision{silent: true, after: fillsSoon}
	case clients.Served:
	}
	return decision{step: produce}
}

// withoutWorkspace adopts a namespace with objects of Fleet.
func (f *Facts) withoutWorkspace() decision {
	if f.fleet == clients.Served && f.hasFleetObjects && f.namespace != nil && f.namespace.DeletionTimestamp == nil {
		return decision{step: adopt}
	}
	return decision{}
}

// removal holds the deletion while clusters need the namespace, and until the namespace is gone.
func (f *Facts) removal() decision {
	switch {
	case !isProtected(f.workspace):
		return decision{silent: true} // only finalizers of others keep it
	case !fleet.IsManaged(f.workspace):
		return decision{step: release, silent: true}
	case !f.isMade:
		return decision{step: finish}
	case f.namespace.DeletionTimestamp != nil:
		return decision{end: outcome.Wait("", "Waiting until namespace "+f.name+" is deleted", "Namespace")}
	case len(f.holders) > 0:
		return decision{end: held(f.name, f.holders)}
	}
	return decision{step: purge}
}

// held names the clusters that keep a namespace.
func held(name string, holders []string) error {
	return outcome.Stall(reasonHeld, fmt.Sprintf("the deletion of the FleetWorkspace would delete namespace %s: "+
		"delete "+
		"these clusters first, or move them to another workspace: %s", name, fleet.Holders(holders)))
}

func isProtected(workspace *mgmtv3.FleetWorkspace) bool {
	return slices.Contains(workspace.Finalizers, mgmtv3.FleetWorkspaceFinalizer)
}
