package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

const (
	agentPath = "/v3/connect/agent"
	idHeader  = "X-Cattle-Id"
)

// machineID is the form of a machine's identity, which becomes a label.
var machineID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// refusal is an answer other than 200. The machine sees its message, so it must not reveal anything to strangers.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

func refused(code int, message string) error { return &refusal{code: code, message: message} }

// errUnknown is the common answer to all kinds of invalid tokens.
var errUnknown = refused(http.StatusUnauthorized, "")

// connectAgent exchanges a bootstrap token, or a cluster's registration token, for the connection of a machine
// (docs/wire/endpoints.md#connect-a-machine). Install scripts retry after any answer but 200, so the codes are for
// people:
//
//   - 400: the request is invalid
//   - 401: the token is invalid
//   - 403: the machine is refused
//   - 409: the identity belongs to another machine, or the machine has another identity
//   - 429: too many machines connect; retry later
//   - 503: retry later
func (s *server) connectAgent(w http.ResponseWriter, r *http.Request) {
	if !s.Synced() {
		unavailable(w, "caches are not filled yet")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Wait)
	defer cancel()
	defer s.untilEnding(cancel)()
	connection, err := s.connection(ctx, r)
	var no *refusal
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(connection) // fails only when the client has disconnected
	case errors.As(err, &no) && no.message == "":
		w.WriteHeader(no.code)
	case errors.As(err, &no) && no.code == http.StatusServiceUnavailable:
		unavailable(w, no.message)
	case errors.As(err, &no) && no.code == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", retrySeconds)
		http.Error(w, no.message, no.code)
	case errors.As(err, &no):
		http.Error(w, no.message, no.code)
	case errors.Is(err, context.Canceled):
		unavailable(w, "this replica is shutting down") // if the machine disconnected, it does not read this answer
	default:
		s.Log.WithError(err).Error("Cannot connect a machine")
		http.Error(w, "the server failed; see its log", http.StatusInternalServerError)
	}
}

// untilEnding calls cancel when this replica begins to shut down, unless stop is called first.
func (s *server) untilEnding(cancel func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-s.Ending:
			cancel()
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

// connectionInfo is the answer. Agents require the first three fields. The install script reads the last one.
type connectionInfo struct {
	KubeConfig string `json:"kubeConfig"`
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	// MachineUID is the UID with which the machine's plan labels its node.
	MachineUID string `json:"machineUID,omitempty"`
}

func (s *server) connection(ctx context.Context, r *http.Request) (*connectionInfo, error) {
	id := r.Header.Get(idHeader)
	if id == "" {
		return nil, errUnknown
	}
	if !machineID.MatchString(id) {
		return nil, refused(http.StatusBadRequest, "header "+idHeader+
			" must be at most 63 letters, digits, dots, dashes and underscores")
	}
	caller, err := s.caller(r, id)
	if err != nil {
		return nil, err
	}
	leave, err := s.crowd.enter(caller.cluster, caller.machine)
	if err != nil {
		return nil, err
	}
	defer leave()
	who, err := s.admit(ctx, r, caller, id)
	if err != nil {
		return nil, err
	}
	account, err := s.planAccount(ctx, who)
	if err != nil {
		return nil, err
	}
	token, err := s.planToken(ctx, account)
	if err != nil {
		return nil, err
	}
	if err := s.remember(who.bootstrap, token); err != nil {
		return nil, err
	}
	kubeconfig, err := s.kubeconfig(s.baseURL(r), token)
	if err != nil {
		return nil, err
	}
	return &connectionInfo{
		KubeConfig: kubeconfig,
		Namespace:  account.Namespace,
		SecretName: account.Labels[rkev1.PlanSecretNameLabel],
		MachineUID: string(registration.NodeUID(who.machine)),
	}, nil
}

// caller is the origin of a request with a valid token.
type caller struct {
	// token is the ClusterRegistrationToken of a host, empty for a machine with a bootstrap token.
	token   types.NamespacedName
	cluster types.NamespacedName
	// machine identifies the machine within the cluster: the identity of a host, or the name of a Machine.
	machine string
}

// caller verifies the token of a request, which is a machine's bootstrap token or a registration token of a cluster
// that accepts hosts.
func (s *server) caller(r *http.Request, id string) (caller, error) {
	presented := bearer(r)
	if token, ok := s.Registrations.Registration(presented, registration.ForNode); ok && s.HostCluster != nil {
		cluster, ok := s.HostCluster(token.Namespace)
		if !ok {
			return caller{}, refused(http.StatusForbidden, "this server does not manage the cluster of this token")
		}
		return caller{token: token, cluster: cluster, machine: "host " + id}, nil
	}
	who, err := s.identify(presented)
	if err != nil {
		return caller{}, err
	}
	return caller{cluster: types.NamespacedName{Namespace: who.machine.Namespace, Name: who.machine.Spec.ClusterName},
		machine: who.machine.Name}, nil
}

// admit finds the machine of a request.
func (s *server) admit(ctx context.Context, r *http.Request, from caller, id string) (*identity, error) {
	if from.token.Name != "" {
		return s.registered(ctx, from.token, from.cluster, r)
	}
	return s.introduced(ctx, bearer(r), id)
}

// introduced finds the machine of a bootstrap token and binds it to the identity. After a conflict it retries once the
// cache contains the other change.
func (s *server) introduced(ctx context.Context, presented, id string) (*identity, error) {
	for {
		who, err := s.identify(presented)
		if err != nil {
			return nil, err
		}
		if err := s.bind(who, id); !errors.Is(err, errChanged) {
			return who, err
		}
		err = until(ctx, func() (bool, error) {
			current, err := s.MachineCache.Get(who.machine.Namespace, who.machine.Name)
			if err != nil {
				return false, notFoundIsUnknown(err)
			}
			return current.ResourceVersion != who.machine.ResourceVersion, nil
		})
		if err != nil {
			return nil, waiting(err, errChanged.Error())
		}
	}
}

// identity is the owner of a bootstrap token.
type identity struct {
	token     *corev1.Secret
	bootstrap *rkev1.RKEBootstrap
	machine   *clusterv1.Machine
}

// identify follows a bootstrap token to its machine: token, account, RKEBootstrap, Machine. It compares the UID at each
// step, so that a recreated object of the same name grants nothing.
func (s *server) identify(presented string) (*identity, error) {
	token := s.findToken(indexBootstrapToken, presented, func(secret *corev1.Secret) []string {
		return []string{naming.TokenHash(string(accountToken(secret)))}
	})
	if token == nil || token.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] == "true" {
		return nil, errUnknown
	}
	account := s.account(token, rkev1.ServiceAccountRoleBootstrap)
	if account == nil {
		return nil, errUnknown
	}
	bootstrap, machine, err := s.ownersOf(account)
	if err != nil {
		return nil, err
	}
	if machine.DeletionTimestamp != nil || bootstrap.DeletionTimestamp != nil {
		return nil, refused(http.StatusForbidden, "this machine is being deleted")
	}
	return &identity{token: token, bootstrap: bootstrap, machine: machine}, nil
}

// ownersOf returns the RKEBootstrap that owns an account, and the Machine that owns the RKEBootstrap. The account's
// label must name the same Machine.
func (s *server) ownersOf(account *corev1.ServiceAccount) (*rkev1.RKEBootstrap, *clusterv1.Machine, error) {
	owner := ownerOf(account.OwnerReferences, "RKEBootstrap")
	if owner == nil {
		return nil, nil, errUnknown
	}
	bootstrap, err := s.BootstrapCache.Get(account.Namespace, owner.Name)
	if err != nil || bootstrap.UID != owner.UID {
		return nil, nil, notFoundIsUnknown(err)
	}
	machineOwner := ownerOf(bootstrap.OwnerReferences, "Machine")
	if machineOwner == nil || machineOwner.Name != account.Labels[rkev1.MachineNameLabel] {
		return nil, nil, errUnknown
	}
	machine, err := s.MachineCache.Get(bootstrap.Namespace, machineOwner.Name)
	if err != nil || machine.UID != machineOwner.UID {
		return nil, nil, notFoundIsUnknown(err)
	}
	return bootstrap, machine, nil
}

func notFoundIsUnknown(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return errUnknown
	}
	return fmt.Errorf("read from cache: %w", err)
}

func ownerOf(references []metav1.OwnerReference, kind string) *metav1.OwnerReference {
	for i := range references {
		if references[i].Kind == kind {
			return &references[i]
		}
	}
	return nil
}

// kubeconfig returns the connection as a kubeconfig. The protocol calls its entries agent.
func (s *server) kubeconfig(server, token string) (string, error) {
	const name = "agent"
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: server,
			CertificateAuthorityData: withNewline(s.CACerts)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return string(data), nil
}
