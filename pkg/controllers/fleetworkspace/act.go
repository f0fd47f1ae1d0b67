package fleetworkspace

import (
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// act returns the FleetWorkspace after its writes, nil if it is gone, and the problem that the condition shows.
func (h *handler) act(facts *Facts, decided decision) (*mgmtv3.FleetWorkspace, error) {
	workspace := facts.workspace
	switch decided.step {
	case leave:
	case adopt:
		return nil, h.createWorkspace(facts)
	case release:
		return h.setProtection(facts, false)
	case produce:
		protected, err := h.setProtection(facts, true)
		if err != nil {
			return protected, err
		}
		return protected, h.createNamespace(protected)
	case apply:
		return h.applyObjects(facts)
	case purge:
		if err := h.purge(facts.name); err != nil {
			return workspace, err
		}
		return workspace, outcome.Wait("", "Waiting until namespace "+facts.name+" is deleted", "Namespace")
	case finish:
		if err := h.purge(facts.name); err != nil {
			return workspace, err
		}
		return h.setProtection(facts, false)
	}
	return workspace, decided.end
}

// createWorkspace creates the FleetWorkspace of a namespace that exists already.
func (h *handler) createWorkspace(facts *Facts) error {
	_, err := h.Workspaces.Create(fleet.AdoptedWorkspace(facts.namespace))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create FleetWorkspace %s: %w", facts.name, err)
	}
	return nil
}

// applyObjects protects the FleetWorkspace, and brings its objects up to date.
func (h *handler) applyObjects(facts *Facts) (*mgmtv3.FleetWorkspace, error) {
	protected, err := h.setProtection(facts, true)
	if err != nil {
		return protected, err
	}
	_, err = h.Apply.Apply(h.ctx, workspaceSet, protected, applyset.NoOwnerRef, fleet.WorkspaceKinds(),
		fleet.WorkspaceObjects(protected))
	return protected, err
}

// createNamespace creates the namespace with a plain create, which never takes an existing one. The event of the
// namespace requeues the FleetWorkspace.
func (h *handler) createNamespace(workspace *mgmtv3.FleetWorkspace) error {
	namespace := fleet.WorkspaceNamespace(workspace)
	if err := applyset.Mark(namespace, workspaceSet, workspaceKind, "", workspace.Name); err != nil {
		return err
	}
	if _, err := h.Namespaces.Create(namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", workspace.Name, err)
	}
	return outcome.Wait("", "Waiting until namespace "+workspace.Name+" exists", "Namespace")
}

// purge deletes the namespace that Drover made, and the rights, unless the API server knows a cluster that the caches
// lack.
func (h *handler) purge(name string) error {
	holders, err := h.holdersLive(name)
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		return held(name, holders)
	}
	return h.Apply.PurgeLive(h.ctx, workspaceSet, workspaceKind, "", name, fleet.WorkspaceKinds())
}

// setProtection adds or removes the finalizer.
func (h *handler) setProtection(facts *Facts, wanted bool) (*mgmtv3.FleetWorkspace, error) {
	workspace := facts.workspace
	if isProtected(workspace) == wanted {
		return workspace, nil
	}
	finalizers := slices.DeleteFunc(slices.Clone(workspace.Finalizers), func(finalizer string) bool {
		return finalizer == mgmtv3.FleetWorkspaceFinalizer
	})
	if wanted {
		finalizers = append(finalizers, mgmtv3.FleetWorkspaceFinalizer)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": workspace.ResourceVersion,
	}})
	if err != nil {
		return workspace, fmt.Errorf("encode finalizers of FleetWorkspace %s: %w", workspace.Name, err)
	}
	updated, err := h.Workspaces.Patch(workspace.Name, types.MergePatchType, patch)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return workspace, fmt.Errorf("write finalizers of FleetWorkspace %s: %w", workspace.Name, err)
	}
	h.written.Replaced(workspace, updated, facts.now)
	if updated.DeletionTimestamp != nil && len(updated.Finalizers) == 0 {
		return nil, nil // it is gone
	}
	return updated, nil
}
