package unmanaged

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/registration"
)

// shortly is when a request is looked at again whose objects are there although no cache shows them. Their events come before, or with them.
const shortly = time.Second

func (h *handler) act(f facts, d decision) error {
	if d.again > 0 {
		h.Secrets.EnqueueAfter(f.request.Namespace, f.request.Name, d.again)
	}
	switch d.do {
	case remove:
		return h.remove(f.request)
	case wait:
		return h.answer(f, nil)
	case answer:
		return h.answer(f, &d.answer)
	case register:
		made, err := h.register(f)
		if err != nil || !made {
			return err
		}
		return h.answer(f, &d.answer)
	default:
		return nil
	}
}

func (h *handler) remove(request *corev1.Secret) error {
	err := h.Secrets.Delete(request.Namespace, request.Name, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(request.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete machine request %s/%s: %w", request.Namespace, request.Name, err)
	}
	return nil
}

// answer writes the answer on the request, if it does not say so already. A request that has changed or gone meanwhile has an event of its own.
func (h *handler) answer(f facts, given *registration.Answer) error {
	answered := registration.WithAnswer(f.request, given)
	if equality.Semantic.DeepEqual(answered, f.request) {
		return nil
	}
	_, err := h.Secrets.Update(answered)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("answer machine request %s/%s: %w", f.request.Namespace, f.request.Name, err)
	}
	h.written.Replaced(f.request.UID, f.request.ResourceVersion, h.Now())
	log := h.Log.WithField("namespace", f.request.Namespace).WithField("request", f.request.Name)
	switch {
	case given == nil:
	case given.Refusal != "":
		log.Infof("A host is refused: %s", given.Refusal)
	default:
		log.Infof("A host is Machine %s/%s", given.Namespace, given.Name)
	}
	return nil
}

// register makes the objects of a host, the Machine last, and reports whether all of them are there. Those that a cache does not show and that exist all the
// same are looked at when it does.
func (h *handler) register(f facts) (bool, error) {
	cluster := types.NamespacedName{Namespace: f.capi.Namespace, Name: f.capi.Name}
	wanted, err := f.host.Machine(cluster.Namespace, cluster.Name)
	if err != nil {
		return false, fmt.Errorf("make a machine of host %s: %w", f.host.MachineName(), err)
	}
	if !h.claims.take(f.host.ID, cluster, h.Now()) {
		h.Secrets.EnqueueAfter(f.request.Namespace, f.request.Name, 0)
		return false, nil
	}
	// Until Cluster API gives them to the Machine. Without an owner they would outlive the cluster, if the Machine is never made.
	owner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: f.capi.Name, UID: f.capi.UID}}
	wanted.Bootstrap.OwnerReferences, wanted.Custom.OwnerReferences = owner, owner
	for _, object := range []struct {
		kind   string
		exists bool
		create func() error
	}{
		{"RKEBootstrap", f.named.bootstrap != nil, func() error { return only(h.Bootstraps.Create(wanted.Bootstrap)) }},
		{"CustomMachine", f.named.custom != nil, func() error { return only(h.CustomMachines.Create(wanted.Custom)) }},
		{"Machine", f.named.machine != nil, func() error { return only(h.Machines.Create(wanted.Machine)) }},
	} {
		if object.exists || h.written.Left(made(f.request, object.kind), h.Now()) > 0 {
			continue
		}
		err := object.create()
		if apierrors.IsAlreadyExists(err) {
			h.Secrets.EnqueueAfter(f.request.Namespace, f.request.Name, shortly)
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("make %s %s/%s: %w", object.kind, cluster.Namespace, f.host.MachineName(), err)
		}
		h.written.Did(made(f.request, object.kind), h.Now())
	}
	return true, nil
}

// only keeps the error.
func only[T any](_ T, err error) error { return err }

// made is what is noted when an object was made for a request.
func made(request *corev1.Secret, kind string) string { return string(request.UID) + "/" + kind }
