package clusterregistrationtoken

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/ownwrites"
	"github.com/drover-io/drover/pkg/registration"
	"github.com/drover-io/drover/pkg/tokens"
	"github.com/drover-io/drover/pkg/topology"
)

// gather reads what a decision is made from; nil when there is nothing to decide here.
func (h *handler) gather(token *mgmtv3.ClusterRegistrationToken) (*registration.Facts, error) {
	if token.Spec.ClusterName != token.Namespace {
		h.Log.WithField("namespace", token.Namespace).WithField("token", token.Name).Warnf(
			"ClusterRegistrationToken is ignored: spec.clusterName is %q, and has to be the namespace that the token is in", token.Spec.ClusterName)
		return nil, nil
	}
	cluster, err := h.management.Get(token.Namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", token.Namespace, err)
	}
	if ours, err := h.ours(cluster); err != nil || !ours {
		return nil, err
	}
	facts := &registration.Facts{Registration: token, Environment: cluster.Spec.AgentEnvVars, Settings: h.Settings, Now: h.Now()}
	name := naming.RegistrationTokenSecret(token.Name)
	secret, err := h.secrets.Get(token.Namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		if left := h.written.Left(token.Namespace+"/"+name, facts.Now); left > 0 {
			h.Tokens.EnqueueAfter(token.Namespace, token.Name, left)
			return nil, nil // we made it, and the cache is behind
		}
	case err != nil:
		return nil, fmt.Errorf("read secret %s/%s: %w", token.Namespace, name, err)
	case secret.DeletionTimestamp != nil:
		return nil, nil
	case h.written.Behind(secret, facts.Now):
		h.Tokens.EnqueueAfter(token.Namespace, token.Name, ownwrites.BelievedAfter)
		return nil, nil
	default:
		facts.Secret = secret
		h.written.Shown(token.Namespace + "/" + name)
	}
	facts.Fresh, err = tokens.Generate(h.Random)
	return facts, err
}

// ours reports whether a management cluster is there to stay, and belongs to a Cluster with our mark.
func (h *handler) ours(cluster *mgmtv3.Cluster) (bool, error) {
	if cluster.DeletionTimestamp != nil {
		return false, nil
	}
	found, err := h.clusters.GetByIndex(indexClusters, cluster.Name)
	if err != nil {
		return false, fmt.Errorf("find the Cluster of management cluster %s: %w", cluster.Name, err)
	}
	for _, c := range found {
		if topology.Owner(c, h.InstanceID, true) != topology.Ours {
			return false, nil
		}
	}
	return len(found) > 0, nil
}
