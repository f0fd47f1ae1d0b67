package clusterregistrationtoken

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// gather reads the facts for a decision. It returns nil if this controller has nothing to decide.
func (h *handler) gather(token *mgmtv3.ClusterRegistrationToken) (*registration.Facts, error) {
	if token.Spec.ClusterName != token.Namespace {
		h.Log.WithField("namespace", token.Namespace).WithField("token", token.Name).Warnf(
			"ClusterRegistrationToken is ignored: spec.clusterName is %q, but must be the token's namespace",
			token.Spec.ClusterName)
		return nil, nil
	}
	cluster, err := h.management.Get(token.Namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", token.Namespace, err)
	}
	owner, err := h.ours(cluster)
	if err != nil || owner == nil {
		return nil, err
	}
	facts := &registration.Facts{Registration: token, Environment: cluster.Spec.AgentEnvVars, Settings: h.Settings,
		Now: h.Now()}
	facts.Settings.InstallScriptSHA256 = h.InstallScriptSHA256()
	name := naming.RegistrationTokenSecret(token.Name)
	secret, err := h.secrets.Get(token.Namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		if left := h.written.Left(token.Namespace+"/"+name, facts.Now); left > 0 {
			h.Tokens.EnqueueAfter(token.Namespace, token.Name, left)
			return nil, nil // Drover created it, and the cache is behind
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
	if err := h.gatherGiven(facts, owner); err != nil {
		return nil, err
	}
	facts.Fresh, err = naming.RandomToken(h.Random)
	return facts, err
}

// gatherGiven reads the token that a Cluster's agent was given, if the agent uses this registration. The servers of
// such a Cluster have the token in their plans, and etcd has it in its snapshots. Drover therefore replaces it only if
// spec.ttl asks for it.
func (h *handler) gatherGiven(facts *registration.Facts, cluster *provv1.Cluster) error {
	if facts.Registration.Name != clustermanifest.RegistrationToken(cluster) ||
		!registration.Serves(registration.Purposes(facts.Registration), registration.ForAgent) {
		return nil
	}
	secret, err := clients.Optional(h.secrets.Get(cluster.Namespace, naming.ClusterAgent(cluster.Name)))
	if err != nil {
		return fmt.Errorf("read the credential of the agent of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if cluster.Spec.RKEConfig != nil {
		facts.Settings.AgentsFollow = false
	}
	// Hosts of an earlier cluster with the same name may still run. Their token does not count.
	if secret != nil && secret.Type == rkev1.SecretTypeClusterAgent && topology.Belongs(secret, cluster) {
		facts.Brought = string(secret.Data[rkev1.ClusterAgentTokenKey])
	}
	return nil
}

// ours returns the Cluster of this instance that a management cluster belongs to. It returns nil if the management
// cluster is being deleted, has no Cluster, or has one of another instance.
func (h *handler) ours(cluster *mgmtv3.Cluster) (*provv1.Cluster, error) {
	if cluster.DeletionTimestamp != nil {
		return nil, nil
	}
	found, err := h.clusters.GetByIndex(provv1.IndexByCluster, cluster.Name)
	if err != nil {
		return nil, fmt.Errorf("find the Cluster of management cluster %s: %w", cluster.Name, err)
	}
	var owner *provv1.Cluster
	for _, c := range found {
		if !topology.IsOurs(c, h.InstanceID) {
			return nil, nil
		}
		owner = c
	}
	return owner, nil
}
