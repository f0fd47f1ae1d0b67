package rkecontrolplane

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// customMachine is the infrastructure kind of machines that registered themselves.
const customMachine = "CustomMachine"

func (h *handler) protect(controlPlane *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
	changed := controlPlane.DeepCopy()
	changed.Finalizers = append(changed.Finalizers, finalizer)
	updated, err := h.ControlPlanes.Update(changed)
	if err != nil {
		return controlPlane, fmt.Errorf("protect control plane %s/%s: %w", controlPlane.Namespace, controlPlane.Name,
			err)
	}
	h.written.Replaced(controlPlane, updated, h.Now())
	return updated, nil
}

// remove deletes the servers that registered themselves, waits for all servers, and removes the finalizer.
func (h *handler) remove(controlPlane *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
	servers, err := h.gatherServers(controlPlane)
	if err != nil {
		return controlPlane, err
	}
	for _, server := range servers {
		if !isCustom(server) || !server.DeletionTimestamp.IsZero() {
			continue
		}
		err := h.Machines.Delete(server.Namespace, server.Name, &metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(server.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return controlPlane, fmt.Errorf("delete Machine %s/%s: %w", server.Namespace, server.Name, err)
		}
	}
	if len(servers) > 0 {
		return h.report(controlPlane, servers[0])
	}
	released := controlPlane.DeepCopy()
	released.Finalizers = slices.DeleteFunc(released.Finalizers, func(f string) bool { return f == finalizer })
	updated, err := h.ControlPlanes.Update(released)
	if apierrors.IsNotFound(err) {
		return controlPlane, nil
	}
	if err != nil {
		return controlPlane, fmt.Errorf("release control plane %s/%s: %w", controlPlane.Namespace, controlPlane.Name,
			err)
	}
	h.written.Replaced(controlPlane, updated, h.Now())
	return updated, nil
}

func isCustom(machine *clusterv1.Machine) bool {
	ref := machine.Spec.InfrastructureRef
	return ref.APIGroup == rkev1.SchemeGroupVersion.Group && ref.Kind == customMachine
}
