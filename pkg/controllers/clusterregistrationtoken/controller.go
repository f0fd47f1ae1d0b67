package clusterregistrationtoken

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "cluster-registration-token"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Tokens             mgmtcontrollers.ClusterRegistrationTokenController
	ManagementClusters mgmtcontrollers.ClusterController
	Clusters           provcontrollers.ClusterController
	Secrets            corecontrollers.SecretController
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Settings apply to all tokens.
	Settings registration.Settings
	// InstallScriptSHA256 returns Settings.InstallScriptSHA256, which can change while the program runs; nil means
	// unknown.
	InstallScriptSHA256 func() string
	// Random is the source of tokens; nil means the system's.
	Random io.Reader
	// Now is the clock; nil means the system's.
	Now func() time.Time
	// Log records changes of tokens, never a token itself; nil means the standard logger.
	Log logrus.FieldLogger
}

type handler struct {
	Deps
	tokens     mgmtcontrollers.ClusterRegistrationTokenCache
	management mgmtcontrollers.ClusterCache
	clusters   provcontrollers.ClusterCache
	secrets    corecontrollers.SecretCache
	written    *ownwrites.Log
}

// Register adds the handler, its index and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(d)
	d.Tokens.OnChange(ctx, handlerName, h.onChange)
	if err := errors.Join(
		wakeup.On(ctx, d.Tokens, ofSecret, d.Secrets),
		wakeup.On(ctx, d.Tokens, func(c *mgmtv3.Cluster) []wakeup.Key { return h.of(c.Name) }, d.ManagementClusters),
		wakeup.On(ctx, d.Tokens, func(c *provv1.Cluster) []wakeup.Key { return h.of(c.Status.ClusterName) },
			d.Clusters),
	); err != nil {
		return fmt.Errorf("watch for registration tokens: %w", err)
	}
	if d.InstallScriptSHA256 != nil {
		go h.followScript(ctx)
	}
	return nil
}

func newHandler(d Deps) *handler {
	if d.Random == nil {
		d.Random = rand.Reader
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.InstallScriptSHA256 == nil {
		d.InstallScriptSHA256 = func() string { return "" }
	}
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	h := &handler{
		Deps: d, tokens: d.Tokens.Cache(), management: d.ManagementClusters.Cache(), clusters: d.Clusters.Cache(),
		secrets: d.Secrets.Cache(),
		written: ownwrites.New(),
	}
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	return h
}

// ofSecret wakes the registration whose token a Secret holds. It uses the name, because labels can be removed.
func ofSecret(secret *corev1.Secret) []wakeup.Key {
	name, ok := registration.IsSecretName(secret.Name)
	if !ok {
		return nil
	}
	return []wakeup.Key{{Namespace: secret.Namespace, Name: name}}
}

// of returns the registrations of a management cluster.
func (h *handler) of(managementCluster string) []wakeup.Key {
	if managementCluster == "" {
		return nil
	}
	tokens, err := h.tokens.List(managementCluster, labels.Everything())
	if err != nil {
		return nil // a namespaced cache lists every namespace
	}
	return wakeup.Keys(tokens)
}

func (h *handler) onChange(_ string, token *mgmtv3.ClusterRegistrationToken) (*mgmtv3.ClusterRegistrationToken, error) {
	if token == nil || token.DeletionTimestamp != nil {
		return token, nil // the garbage collector deletes its Secret
	}
	if h.written.Behind(token, h.Now()) {
		h.Tokens.EnqueueAfter(token.Namespace, token.Name, ownwrites.BelievedAfter)
		return token, nil
	}
	facts, err := h.gather(token)
	if err != nil || facts == nil {
		return token, err // an event of the management cluster, its Cluster or the Secret requeues it
	}
	decided := registration.Decide(*facts)
	if written, err := h.act(facts, decided); err != nil || !written {
		return token, err // an event of the Secret requeues it
	}
	if !decided.Next.IsZero() {
		h.Tokens.EnqueueAfter(token.Namespace, token.Name, decided.Next.Sub(facts.Now))
	}
	return h.report(token, decided.Status)
}
