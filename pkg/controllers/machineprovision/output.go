package machineprovision

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// outputTimeout bounds the request for the log of a pod. The kubelet of a lost node does not answer.
const outputTimeout = 5 * time.Second

// keepOutput stores the last output of an ended Job before its pod is deleted. The Secret belongs to the machine, and
// the cache holds only its keys (docs/wire/secrets.md#output-of-jobs).
func (h *handler) keepOutput(obj *unstructured.Unstructured, s machinejob.Snapshot) error {
	secret, err := clients.Optional(h.secrets.Get(obj.GetNamespace(), naming.MachineOutput(obj.GetName())))
	if err != nil {
		return err
	}
	var kept map[string][]byte
	if secret != nil {
		kept = secret.Data
	}
	job, ok := s.KeepsOutput(kept)
	key := machinejob.OutputKey(job)
	did := "output/" + string(obj.GetUID()) + "/" + key
	if !ok || h.written.Left(did, h.Now()) > 0 || secret != nil && !belongsTo(secret, s.Machine.UID) {
		return nil
	}
	pod, err := h.endedPod(obj.GetNamespace(), job.Name)
	if err != nil || pod == nil {
		return err // the event of the pod wakes the machine
	}
	text := machinejob.ClipOutput(redact.Text(h.secretsOf(&s).Mask(h.outputOf(pod))))
	if secret == nil {
		err = h.createOutput(obj, key, text)
	} else {
		err = h.patchOutput(secret, machinejob.OutdatedOutputs(kept, job), key, text)
	}
	if err != nil {
		return fmt.Errorf("keep the output of Job %s: %w", job.Name, err)
	}
	h.written.Did(did, h.Now())
	return nil
}

// endedPod returns the newest pod of a Job, nil if there is none or it still runs.
func (h *handler) endedPod(namespace, job string) (*corev1.Pod, error) {
	pods, err := h.pods.GetByIndex(indexPodsByJob, namespace+"/"+job)
	if err != nil {
		return nil, fmt.Errorf("list pods of Job %s/%s: %w", namespace, job, err)
	}
	if len(pods) == 0 {
		return nil, nil
	}
	pod := slices.MaxFunc(pods, machinejob.ByAge)
	if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
		return nil, nil
	}
	return pod, nil
}

// outputOf returns the log of a pod. If the log cannot be read, it returns the end of the output, which the kubelet
// puts into the status of the pod.
func (h *handler) outputOf(pod *corev1.Pod) string {
	if h.Output != nil {
		ctx, cancel := context.WithTimeout(h.ctx, outputTimeout)
		defer cancel()
		if log, err := h.Output(ctx, pod.Namespace, pod.Name); err == nil && len(log) > 0 {
			return string(log)
		}
	}
	return machinejob.TerminationMessage(pod)
}

func (h *handler) createOutput(obj *unstructured.Unstructured, key, text string) error {
	_, err := h.Secrets.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: obj.GetNamespace(), Name: naming.MachineOutput(obj.GetName()),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(),
				Name: obj.GetName(), UID: obj.GetUID()}},
		},
		Type: rkev1.SecretTypeMachineOutput, Data: map[string][]byte{key: []byte(text)},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil // the event of the Secret wakes the machine
	}
	return err
}

// patchOutput changes keys without the values of others, because the cache does not hold values.
func (h *handler) patchOutput(secret *corev1.Secret, outdated []string, key, text string) error {
	data := map[string]any{key: []byte(text)}
	for _, old := range outdated {
		data[old] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID}, "data": data})
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = h.Secrets.Patch(secret.Namespace, secret.Name, types.MergePatchType, patch)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is deleted with an earlier machine
	}
	return err
}
