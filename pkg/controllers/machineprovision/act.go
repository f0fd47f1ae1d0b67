package machineprovision

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// staleRetry is the retry delay after the API server knew more than the caches.
const staleRetry = time.Second

// act carries out a decision, in order. It returns false if the API server knows more than the snapshot. Nothing must
// be reported then.
func (h *handler) act(obj *unstructured.Unstructured, d machinejob.Decision) (bool, error) {
	for _, action := range d.Actions {
		done, err := h.do(obj, action)
		if err != nil {
			return false, fmt.Errorf("%s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
		if !done {
			return false, nil
		}
	}
	return true, nil
}

func (h *handler) do(obj *unstructured.Unstructured, action machinejob.Action) (bool, error) {
	switch action.Kind {
	case machinejob.ActionConfirmGone:
		return h.confirmGone(obj, action)
	case machinejob.ActionMark:
		return true, h.mark(obj, action.Name)
	case machinejob.ActionEnsure:
		return true, h.ensure(obj, action.Objects)
	case machinejob.ActionRestore:
		return true, h.restore(obj, action.Objects)
	case machinejob.ActionRun:
		return true, h.run(obj, action.Objects.Job)
	case machinejob.ActionDeleteJob:
		return true, h.deleteJob(obj.GetNamespace(), action.Name)
	case machinejob.ActionTakeBack:
		return h.takeBack(obj.GetNamespace(), action.Name)
	case machinejob.ActionTidy:
		return true, h.tidy(obj)
	case machinejob.ActionReplace:
		return true, h.replace(obj, action.Name)
	case machinejob.ActionRelease:
		return h.release(obj, action)
	default:
		return false, fmt.Errorf("unknown action %s", action.Kind)
	}
}

// mark writes the label and the finalizer that must exist before any other action, in one write.
func (h *handler) mark(obj *unstructured.Unstructured, capiMachine string) error {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[rkev1.CAPIMachineNameLabel] = capiMachine
	obj.SetLabels(labels)
	if !slices.Contains(obj.GetFinalizers(), rkev1.MachineProvisionFinalizer) {
		obj.SetFinalizers(append(obj.GetFinalizers(), rkev1.MachineProvisionFinalizer))
	}
	return h.update(obj, "mark")
}

// update writes the object and takes over its new version, for the status write that follows.
func (h *handler) update(obj *unstructured.Unstructured, verb string) error {
	replaced := obj.GetResourceVersion()
	updated, err := h.Dynamic.Update(h.ctx, obj)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	h.written.Replaced(obj.GetUID(), replaced, h.Now())
	obj.SetResourceVersion(updated.GetResourceVersion())
	return nil
}

// ensure writes everything that a Job needs. It creates the state Secret once, because only rancher-machine writes to
// it.
func (h *handler) ensure(obj *unstructured.Unstructured, objects machinejob.Objects) error {
	state, err := clients.Optional(h.secrets.Get(obj.GetNamespace(), objects.State.Name))
	if err != nil {
		return err
	}
	if state == nil {
		if _, err := h.Secrets.Create(objects.State); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the state Secret: %w", err)
		}
	}
	secrets, err := h.ApplySecrets.Apply(h.ctx, handlerName, obj, applyset.OwnerRef, withoutOwner(objects.Secrets()))
	if err != nil {
		return err
	}
	set := []runtime.Object{objects.ServiceAccount, objects.Role}
	for _, binding := range objects.RoleBindings {
		set = append(set, binding)
	}
	rights, err := h.Apply.Apply(h.ctx, handlerName, obj, applyset.NoOwnerRef, setKinds(), set)
	if secrets.Changed() || rights.Changed() {
		h.written.Did(ensured(obj), h.Now())
	}
	return err
}

// ensured is the key of the last write of ensure.
func ensured(obj *unstructured.Unstructured) string { return "ensure/" + string(obj.GetUID()) }

// restore writes again what a running Job needs. Caches may not show yet what ensure has just written.
func (h *handler) restore(obj *unstructured.Unstructured, objects machinejob.Objects) error {
	if left := h.written.Left(ensured(obj), h.Now()); left > 0 {
		h.Dynamic.EnqueueAfter(obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName(), left)
		return nil
	}
	return h.ensure(obj, objects)
}

// withoutOwner removes the owner references, because the apply set writes its own.
func withoutOwner(secrets []*corev1.Secret) []*corev1.Secret {
	for _, secret := range secrets {
		secret.OwnerReferences = nil
	}
	return secrets
}

// run creates a Job once. An existing Job stays unchanged, whatever has changed since.
func (h *handler) run(obj *unstructured.Unstructured, job *batchv1.Job) error {
	_, err := h.Jobs.Create(job)
	if err == nil {
		h.countUnhealthy(obj)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Job %s: %w", job.Name, err)
	}
	existing, err := h.Jobs.Get(job.Namespace, job.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Job %s: %w", job.Name, err)
	}
	if !belongsTo(existing, string(obj.GetUID())) {
		return fmt.Errorf("wait for the deletion of Job %s, which belongs to another machine of the same name",
			job.Name)
	}
	return nil
}

func (h *handler) deleteJob(namespace, name string) error {
	err := h.Jobs.Delete(namespace, name,
		&metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Job %s: %w", name, err)
	}
	return nil
}

// takeBack deletes a Job whose pod has not run according to the API server, and only if the Job does not change
// meanwhile.
func (h *handler) takeBack(namespace, name string) (bool, error) {
	job, err := clients.Optional(h.Jobs.Get(namespace, name, metav1.GetOptions{}))
	if err != nil || job == nil {
		return job == nil, err
	}
	list, err := h.Pods.List(namespace, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
	if err != nil {
		return false, fmt.Errorf("list pods of Job %s: %w", name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	if machinejob.Observe(job, pods).Started {
		return false, nil
	}
	err = h.Jobs.Delete(namespace, name, &metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &job.UID,
			ResourceVersion: &job.ResourceVersion},
	})
	if apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete Job %s, whose pod has not started: %w", name, err)
	}
	return true, nil
}

// tidy deletes everything except the state and the output, so that no credentials remain.
func (h *handler) tidy(obj *unstructured.Unstructured) error {
	done := "tidy/" + string(obj.GetUID())
	if h.written.Left(done, h.Now()) > 0 {
		return nil
	}
	jobs, err := h.jobs.GetByIndex(indexJobsByMachine, machineKey(obj.GetKind(), obj.GetNamespace(), obj.GetName()))
	if err != nil {
		return fmt.Errorf("list Jobs of the machine: %w", err)
	}
	for _, job := range jobs {
		if job.DeletionTimestamp != nil {
			continue
		}
		if err := h.deleteJob(job.Namespace, job.Name); err != nil {
			return err
		}
	}
	if _, err := h.ApplySecrets.Apply(h.ctx, handlerName, obj, applyset.OwnerRef, nil); err != nil {
		return err
	}
	if _, err := h.Apply.Purge(h.ctx, handlerName, obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName(),
		setKinds()); err != nil {
		return err
	}
	h.written.Did(done, h.Now())
	return nil
}

// replace deletes the Machine, and its MachineSet creates another.
func (h *handler) replace(obj *unstructured.Unstructured, name string) error {
	machine, err := clients.Optional(h.machines.Get(obj.GetNamespace(), name))
	if err != nil || machine == nil {
		return err
	}
	uid := machine.UID
	err = h.Machines.Delete(machine.Namespace, machine.Name,
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Machine %s: %w", name, err)
	}
	// The cache may not show yet that an earlier reconcile deleted the Machine.
	if err == nil && machine.DeletionTimestamp.IsZero() && h.counted.first(machine.UID) {
		h.Disruptions.Count(disruption.HealthMachineFailed, 1)
	}
	return nil
}

// confirmGone asks the API server for objects that the caches lack.
func (h *handler) confirmGone(obj *unstructured.Unstructured, action machinejob.Action) (bool, error) {
	if gone, err := h.jobIsGone(obj, action.Name); err != nil || !gone {
		return false, err
	}
	if action.StateSecret == "" {
		return true, nil
	}
	state, err := clients.Optional(h.Secrets.Get(obj.GetNamespace(), action.StateSecret, metav1.GetOptions{}))
	return state == nil, err
}

// jobIsGone asks the API server for a Job of the machine. An empty name means that there is no Job.
func (h *handler) jobIsGone(obj *unstructured.Unstructured, name string) (bool, error) {
	if name == "" {
		return true, nil
	}
	job, err := clients.Optional(h.Jobs.Get(obj.GetNamespace(), name, metav1.GetOptions{}))
	return job == nil || !belongsTo(job, string(obj.GetUID())), err
}

// release removes the finalizer, unless the API server knows of a Job or a virtual machine. The object owns everything
// that belongs to it, so all of that is deleted too.
func (h *handler) release(obj *unstructured.Unstructured, action machinejob.Action) (bool, error) {
	if gone, err := h.jobIsGone(obj, action.Name); err != nil || !gone {
		return false, err
	}
	if action.StateSecret != "" {
		state, err := clients.Optional(h.Secrets.Get(obj.GetNamespace(), action.StateSecret, metav1.GetOptions{}))
		if err != nil {
			return false, err
		}
		if state != nil && machinejob.StateHolds(state.Data[rkev1.MachineStateKey]) {
			return false, nil
		}
	}
	obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool {
		return f == rkev1.MachineProvisionFinalizer
	}))
	replaced := obj.GetResourceVersion()
	_, err := h.Dynamic.Update(h.ctx, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("remove the finalizer: %w", err)
	}
	h.written.Replaced(obj.GetUID(), replaced, h.Now())
	return true, nil
}
