package machinenodelookup

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// act copies the addresses and then the provider ID. Cluster API waits for the provider ID, so the addresses must come
// first. Each patch contains only its fields, because other programs write the rest of the object.
func (h *handler) act(s snapshot, node *corev1.Node) error {
	if err := h.patch(s, map[string]any{"status": map[string]any{"addresses": addressesOf(node)}},
		"status"); err != nil {
		return err
	}
	return h.patch(s, map[string]any{"spec": map[string]any{"providerID": node.Spec.ProviderID}})
}

// maxAddress is the longest address that Cluster API accepts.
const maxAddress = 256

// addressesOf omits addresses that Cluster API would refuse, so that one invalid address does not block the machine.
func addressesOf(node *corev1.Node) []clusterv1.MachineAddress {
	addresses := make([]clusterv1.MachineAddress, 0, len(node.Status.Addresses))
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case corev1.NodeHostName, corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeInternalDNS,
			corev1.NodeExternalDNS:
		default:
			continue
		}
		if address.Address != "" && len(address.Address) <= maxAddress {
			addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(address.Type),
				Address: address.Address})
		}
	}
	return addresses
}

func (h *handler) patch(s snapshot, content map[string]any, subresources ...string) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	namespace := s.machine.Namespace
	if s.kind.Group == rkev1.SchemeGroupVersion.Group {
		_, err = h.CustomMachines.Patch(namespace, s.infra, types.MergePatchType, data, subresources...)
	} else {
		_, err = h.Dynamic.Patch(h.ctx, s.kind, namespace, s.infra, types.MergePatchType, data, subresources...)
	}
	if apierrors.IsNotFound(err) {
		return nil // the machine was deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("write node of %s %s/%s: %w", s.kind.Kind, namespace, s.infra, err)
	}
	return nil
}
