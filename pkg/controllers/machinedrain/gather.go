package machinedrain

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// machineOf returns the Machine of a plan Secret, nil if it belongs to no cluster of this instance. It reads caches
// only.
func (h *handler) machineOf(secret *corev1.Secret) (*clusterv1.Machine, error) {
	machines, err := h.Machines.Cache().GetByIndex(planstore.ByPlanSecret, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return nil, fmt.Errorf("find the machine of plan secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if len(machines) != 1 {
		return nil, nil
	}
	cluster, err := clients.Optional(h.ProvisioningClusters.Get(secret.Namespace, machines[0].Spec.ClusterName))
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	if !topology.IsOurs(cluster, h.InstanceID) {
		return nil, nil
	}
	return machines[0], nil
}

// gather returns the facts about a plan Secret, and the error of the last attempt.
func (h *handler) gather(secret *corev1.Secret, machine *clusterv1.Machine) (view, error) {
	request := secret.Annotations[rkev1.DrainAnnotation]
	if request == "" {
		request = secret.Annotations[rkev1.UncordonAnnotation]
	}
	v := view{annotations: secret.Annotations, deleting: machine.DeletionTimestamp != nil}
	var failed error
	v.task, v.finished, failed = h.jobs.state(keyOf(secret), request)
	v.failed, v.late = failed != nil, h.isLate(secret.Annotations)
	return v, failed
}

// isLate reports whether a drain was requested longer ago than its timeout. Without a known time it is late: an attempt
// that waits for pods lasts as long as the timeout.
func (h *handler) isLate(annotations map[string]string) bool {
	var options rkev1.DrainOptions
	if json.Unmarshal([]byte(annotations[rkev1.DrainAnnotation]), &options) != nil {
		return false
	}
	since, err := time.Parse(time.RFC3339, annotations[rkev1.DrainSinceAnnotation])
	return err != nil || h.Now().Sub(since) >= timeoutOf(options)
}
