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

	"github.com/drover-io/drover/pkg/decide/registration"
)

// shortly is the retry delay for a request whose objects exist but are in no cache yet. Their events usually come
// first.
const shortly = time.Second

func (h *handler) act(f facts, d decision) error {
	if d.again > 0 {
		h.Secrets.EnqueueAfter(f.request.Namespace, f.request.Name, d.again)
	}
	if d.record {
		if recorded, err := h.record(f); err != nil || !recorded {
			return err
		}
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

// remove deletes a request. It logs a request without an answer, because its host still waits or has given up.
func (h *handler) remove(request *corev1.Secret) error {
	err := h.Secrets.Delete(request.Namespace, request.Name,
		&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(request.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete machine request %s/%s: %w", request.Namespace, request.Name, err)
	}
	if registration.ReadAnswer(request) == nil {
		h.Log.WithField("namespace", request.Namespace).WithField("request", request.Name).
			Warnf("Deleted the request of a host without an answer after %s; the host sends another one", keptFor)
	}
	return nil
}

// answer writes the answer to the request if it differs. A request that was changed or deleted meanwhile has its own
// event.
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
		log.Infof("Refused a host: %s", given.Refusal)
	default:
		log.Infof("Told a host that it is Machine %s/%s", given.Namespace, given.Name)
	}
	return nil
}

// record adds a host to the status of its token, and reports whether the token now has it. The write fails if another
// process or worker has changed the token meanwhile. Therefore no two hosts get the last admission, and a process that
// is killed next has not admitted a host without a record.
func (h *handler) record(f facts) (bool, error) {
	_, err := h.Tokens.UpdateStatus(registration.WithHost(f.token, &f.host))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return h.later(f)
	}
	if err != nil {
		return false, fmt.Errorf("record a host in ClusterRegistrationToken %s/%s: %w", f.token.Namespace, f.token.Name,
			err)
	}
	h.Log.WithField("namespace", f.token.Namespace).WithField("token", f.token.Name).
		Infof("The token admitted host %s", f.host.MachineName())
	return true, nil
}

// register creates the objects of a host and reports whether all exist. The Machine comes last, and only after the
// others match. It retries later for objects that exist but are not in the cache.
func (h *handler) register(f facts) (bool, error) {
	cluster := types.NamespacedName{Namespace: f.capi.Namespace, Name: f.capi.Name}
	wanted, err := f.host.Machine(cluster.Namespace, cluster.Name)
	if err != nil {
		return false, fmt.Errorf("create the machine of host %s: %w", f.host.MachineName(), err)
	}
	if !h.claims.take(f.host.ID, cluster, h.Now()) {
		h.Secrets.EnqueueAfter(f.request.Namespace, f.request.Name, 0)
		return false, nil
	}
	h.removeFormerNode(cluster, &f.host)
	// Until Cluster API makes the Machine the owner. Without an owner, they would outlive the cluster if the Machine is
	// never created.
	owner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: f.capi.Name,
		UID: f.capi.UID}}
	wanted.Bootstrap.OwnerReferences, wanted.Custom.OwnerReferences = owner, owner
	for _, put := range []func() (bool, error){
		func() (bool, error) {
			return put(h, f, "RKEBootstrap", f.named.bootstrap, wanted.Bootstrap, h.Bootstraps)
		},
		func() (bool, error) {
			return put(h, f, "CustomMachine", f.named.custom, wanted.Custom, h.CustomMachines)
		},
		func() (bool, error) { return put(h, f, "Machine", f.named.machine, wanted.Machine, h.Machines) },
	} {
		if done, err := put(); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// client creates and patches objects of a kind.
type client[T any] interface {
	Create(object T) (T, error)
	Patch(namespace, name string, kind types.PatchType, data []byte, subresources ...string) (T, error)
}

// put creates an object, or corrects the existing one, and reports whether it is now as wanted. there is the object in
// the cache, nil without one.
func put[T interface {
	comparable
	metav1.Object
}](h *handler, f facts, kind string, there, wanted T, c client[T],
) (bool, error) {
	var none T
	if there != none {
		return h.correct(f, kind, there, wanted, func(patch []byte) error {
			return only(c.Patch(there.GetNamespace(), there.GetName(), types.MergePatchType, patch))
		})
	}
	if h.written.Left(made(f.request, kind), h.Now()) > 0 {
		return true, nil
	}
	_, err := c.Create(wanted)
	if apierrors.IsAlreadyExists(err) {
		return h.later(f)
	}
	if err != nil {
		return false, fmt.Errorf("create %s %s/%s: %w", kind, wanted.GetNamespace(), wanted.GetName(), err)
	}
	h.written.Did(made(f.request, kind), h.Now())
	return true, nil
}

// correct updates an object from an earlier attempt to the host's current request, because a machine's roles are those
// of all its objects. If the Machine exists but no cache shows it, the host keeps that Machine unchanged.
func (h *handler) correct(f facts, kind string, there, wanted metav1.Object, write func(patch []byte) error) (bool,
	error) {
	if h.written.Behind(there, h.Now()) {
		return h.later(f) // the cached object is outdated
	}
	patch, err := registration.Correction(there, wanted)
	if err != nil || patch == nil {
		return err == nil, err
	}
	switch _, err := h.Machines.Get(wanted.GetNamespace(), wanted.GetName(), metav1.GetOptions{}); {
	case err == nil:
		return h.later(f)
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("read Machine %s/%s: %w", wanted.GetNamespace(), wanted.GetName(), err)
	}
	err = write(patch)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return h.later(f)
	}
	if err != nil {
		return false, fmt.Errorf("update %s %s/%s: %w", kind, there.GetNamespace(), there.GetName(), err)
	}
	h.written.Replaced(there.GetUID(), there.GetResourceVersion(), h.Now())
	h.Log.WithField("namespace", there.GetNamespace()).WithField("name", there.GetName()).
		Infof("Updated the %s of a host without a Machine to the host's request", kind)
	return true, nil
}

// later requeues a request for when the caches show more.
func (h *handler) later(f facts) (bool, error) {
	h.Secrets.EnqueueAfter(f.request.Namespace, f.request.Name, shortly)
	return false, nil
}

// only returns the error.
func only[T any](_ T, err error) error { return err }

// made returns the key under which a created object is recorded. It includes the request's content, which may change.
func made(request *corev1.Secret, kind string) string {
	return string(request.UID) + "/" + registration.SaidDigest(request) + "/" + kind
}
