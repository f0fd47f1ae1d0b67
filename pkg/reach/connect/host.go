package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// maxRequest limits a host's request, in bytes. Its Secret can hold 1 MiB, and a machine's labels and annotations 256
// KiB.
const maxRequest = 64 << 10

// registered admits a host with the registration token of a cluster. It requests a Machine from the controller of
// registered hosts through a Secret, and waits for the answer on it. A host may use any replica, and each host has at
// most one request at a time. Only a Machine of the token's cluster is accepted, whatever the answer says.
// (docs/wire/endpoints.md#register-a-host.)
func (s *server) registered(ctx context.Context, token, cluster types.NamespacedName, r *http.Request) (*identity,
	error) {
	said := registration.HostHeaders(r.Header)
	data, err := json.Marshal(said)
	if err != nil {
		return nil, fmt.Errorf("encode the request of a host: %w", err)
	}
	if len(data) > maxRequest {
		return nil, refused(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("labels, taints and addresses "+
			"together must have at most %d bytes", maxRequest))
	}
	host, err := registration.ParseHost(said)
	known := s.isKnown(host.ID, cluster)
	if err != nil && !known { // the other data of a known host are ignored
		return nil, refused(http.StatusBadRequest, err.Error())
	}
	done, err := s.reserve(token.Namespace, &host, len(data), known)
	if err != nil {
		return nil, err
	}
	gone := false
	defer func() { done(gone) }()
	asked, err := s.ask(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: token.Namespace, Name: host.MachineName()},
		Type:       rkev1.SecretTypeMachineRequest,
		Data: map[string][]byte{rkev1.MachineRequestDataKey: data,
			rkev1.MachineRequestTokenKey: []byte(token.Name)},
	})
	if err != nil {
		return nil, err
	}
	who, answered, err := s.answered(ctx, cluster, asked, host.ID)
	if err != nil {
		return nil, err
	}
	gone = s.forget(answered)
	return who, nil
}

// answered waits for the answer to a host's request, and for its Machine.
func (s *server) answered(ctx context.Context, cluster types.NamespacedName, asked *corev1.Secret,
	id string) (*identity, *corev1.Secret, error) {
	answered, answer, err := s.answer(ctx, asked)
	switch {
	case err != nil:
		return nil, nil, err
	// Keep the refused request until it is swept: a repeated request then gets the same answer without a write.
	case answer.Refusal != "":
		return nil, nil, refused(http.StatusForbidden, answer.Refusal)
	}
	who, err := s.machineOf(ctx, cluster, answer, id)
	return who, answered, err
}

// reserve lets a host make its machine request. A host with a Machine always may: its owner must be able to repair it,
// and there are only as many as Machines.
func (s *server) reserve(namespace string, host *registration.Host, size int, known bool) (done func(gone bool),
	err error) {
	requests, err := s.SecretCache.GetByIndex(indexMachineRequests, namespace)
	if err != nil {
		return nil, fmt.Errorf("count the hosts of cluster %s that wait: %w", namespace, err)
	}
	shown := make([]string, len(requests))
	for i := range requests {
		shown[i] = requests[i].Name
	}
	limit := s.MaxWaitingHosts
	if known {
		limit = math.MaxInt
	}
	return s.arrivals.reserve(namespace, host.MachineName(), size, shown, limit, s.Now)
}

// isKnown reports whether a cluster already has a host's machine.
func (s *server) isKnown(id string, cluster types.NamespacedName) bool {
	machines, err := s.MachineCache.GetByIndex(indexMachineID, id)
	return err == nil && id != "" && slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
		return isOf(m, cluster)
	})
}

func isOf(machine *clusterv1.Machine, cluster types.NamespacedName) bool {
	return machine.Namespace == cluster.Namespace && machine.Spec.ClusterName == cluster.Name
}

// ask creates the request of a host. An existing request comes from an earlier connection of the same host. If its data
// differ, ask updates it for a new answer.
func (s *server) ask(request *corev1.Secret) (*corev1.Secret, error) {
	created, err := s.SecretClient.Create(request)
	if !apierrors.IsAlreadyExists(err) {
		return created, asking(request, err)
	}
	there, err := s.SecretClient.Get(request.Namespace, request.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, errChanged
	case err != nil:
		return nil, asking(request, err)
	case there.Type != request.Type || there.DeletionTimestamp != nil:
		return nil, errChanged
	case sameRequest(there, request):
		return there, nil
	}
	next := there.DeepCopy()
	next.Data = request.Data
	updated, err := s.SecretClient.Update(next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, errChanged
	}
	return updated, asking(request, err)
}

func asking(request *corev1.Secret, err error) error {
	if err == nil {
		return nil
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return refused(http.StatusForbidden, "this cluster is being deleted")
	}
	return fmt.Errorf("request a machine with Secret %s/%s: %w", request.Namespace, request.Name, err)
}

func sameRequest(a, b *corev1.Secret) bool {
	return registration.SaidDigest(a) == registration.SaidDigest(b)
}

// answer waits until the request is answered, and returns the answer with the answered version of the request. If the
// request is swept meanwhile, the wait times out and the host retries.
func (s *server) answer(ctx context.Context, asked *corev1.Secret) (answered *corev1.Secret,
	answer *registration.Answer, err error) {
	err = until(ctx, func() (bool, error) {
		current, err := s.SecretCache.Get(asked.Namespace, asked.Name)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read from cache: %w", err)
		case current.UID == asked.UID && sameRequest(current, asked):
			answered, answer = current, registration.ReadAnswer(current)
		}
		return answer != nil, nil
	})
	return answered, answer, waiting(err, "the machine of this host does not exist yet")
}

// machineOf waits until this replica's caches contain the host's Machine and its RKEBootstrap, linked by owner
// reference.
func (s *server) machineOf(ctx context.Context, cluster types.NamespacedName, answer *registration.Answer,
	id string) (*identity, error) {
	who := &identity{}
	err := until(ctx, func() (bool, error) {
		machine, err := s.MachineCache.Get(answer.Namespace, answer.Name)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read from cache: %w", err)
		}
		if !isOf(machine, cluster) || machine.Labels[rkev1.MachineIDLabel] != id || !registration.IsHost(machine) {
			return false, errNotThisHost
		}
		bootstrap, err := s.BootstrapCache.Get(machine.Namespace, machine.Spec.Bootstrap.ConfigRef.Name)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read from cache: %w", err)
		}
		who.machine, who.bootstrap = machine, bootstrap
		owner := ownerOf(bootstrap.OwnerReferences, "Machine")
		return owner != nil && owner.UID == machine.UID, nil
	})
	if err != nil {
		return nil, waiting(err, "the machine of this host is not ready yet")
	}
	if who.machine.DeletionTimestamp != nil || who.bootstrap.DeletionTimestamp != nil {
		return nil, refused(http.StatusForbidden, "this machine is being deleted")
	}
	return who, nil
}

// errNotThisHost means that the answer names a Machine that does not belong to the host.
var errNotThisHost = refused(http.StatusConflict, "the machine of this host belongs to another host; try again, and "+
	"check the Machines of the cluster")

// forget deletes an answered request, in the version that was answered, and reports whether it is gone. A failure is
// harmless, because remaining requests are swept.
func (s *server) forget(request *corev1.Secret) bool {
	err := s.SecretClient.Delete(request.Namespace, request.Name, &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &request.UID, ResourceVersion: &request.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		s.Log.WithError(err).WithField("namespace", request.Namespace).WithField("request", request.Name).Warn(
			"Cannot delete an answered machine request")
	}
	return err == nil || apierrors.IsNotFound(err)
}
