package clustermanifest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Source is the installation's part of manifests, the same for all clusters.
type Source struct {
	// ServerURL is the https URL of the server, without a path. CAChecksum is the hexadecimal SHA-256 of its
	// authorities, empty when the system trusts them.
	ServerURL, CAChecksum string
	// Image is the agent's image, without a registry of clusters before it.
	Image string
	// Registry is the registry of clusters that name none; empty for none.
	Registry string
	// PullSecrets are for Registry and for the registries that they list. Their type is kubernetes.io/dockerconfigjson.
	PullSecrets []types.NamespacedName
}

// Facts are the known facts about a cluster that Drover makes.
type Facts struct {
	Cluster    *provv1.Cluster
	Management *mgmtv3.Cluster
	// Initialized is true once a server of the cluster has answered.
	Initialized bool
	// Token is the registration token of the cluster's agent; empty while there is none.
	Token string
	// Stored is the Secret with the manifest; nil when there is none.
	Stored *corev1.Secret
	// Kubeconfig is true when the Secret with the cluster's kubeconfig exists. Then Drover has already reached the
	// cluster.
	Kubeconfig bool
	// EndpointKeys is the Secret with the keys of the cluster's authorized endpoint; nil when there is none.
	EndpointKeys *corev1.Secret
	// PullSecrets are the pull secrets of the source that exist.
	PullSecrets []PullSecret
}

// Install returns the Secret from which the plans of a cluster's servers take the manifest of its agent. It returns nil
// when there is nothing to write.
//
// Drover writes the manifest once. A new manifest would change the plans of servers without a change by the user, at
// every upgrade of Drover. The manifest follows its inputs only while no agent of the cluster has ever connected. A
// wrong manifest, for example with an image that cannot be pulled, could be repaired in no other way.
//
// A cluster that is older than the agent gets no manifest until a user has installed an agent in it. Its condition
// AgentDeployed shows that, and servers that join later keep the agent.
func Install(source Source, f Facts) (*corev1.Secret, error) {
	if !f.wanted() {
		return nil, nil
	}
	objects, err := Desired(source, f)
	if err != nil {
		return nil, err
	}
	manifest, err := YAML(objects)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{rkev1.ClusterAgentManifestKey: manifest, rkev1.ClusterAgentTokenKey: []byte(f.Token)}
	if f.Stored != nil {
		return renewed(f.Stored, data), nil
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Cluster.Namespace, Name: naming.ClusterAgent(f.Cluster.Name),
			Labels:          map[string]string{rkev1.BackupLabel: "true", rkev1.ClusterNameLabel: f.Cluster.Name},
			Annotations:     map[string]string{rkev1.ReachedByAgentAnnotation: "true"}, // Drover uses the agent only
			OwnerReferences: []metav1.OwnerReference{topology.OwnerReference(f.Cluster, false)},
		},
		Type: rkev1.SecretTypeClusterAgent,
		Data: data,
	}, nil
}

// wanted reports whether the Secret has to be written now: see Install.
func (f Facts) wanted() bool {
	agent := conditions.IsTrue(f.Management.Status.Conditions, mgmtv3.ClusterConditionAgentDeployed)
	switch {
	case f.Token == "":
		return false
	case f.Stored == nil:
		return agent || !f.Initialized && !f.Kubeconfig
	default:
		return !agent && !f.Kubeconfig && f.Stored.Annotations[rkev1.ReachedByAgentAnnotation] == "true"
	}
}

// renewed returns the Secret with other data, or nil when the data are the same.
func renewed(stored *corev1.Secret, data map[string][]byte) *corev1.Secret {
	if equality.Semantic.DeepEqual(stored.Data, data) {
		return nil
	}
	secret := stored.DeepCopy()
	secret.Data = data
	return secret
}

// Desired returns the objects that install the agent of a cluster now. In an imported cluster, the import command has
// installed them.
func Desired(source Source, f Facts) ([]runtime.Object, error) {
	return Render(input(source, f))
}

// input is everything that the manifest of a cluster depends on.
func input(source Source, f Facts) Input {
	in := source.Input(f.Management, f.Token, f.PullSecrets)
	if f.Cluster.Spec.RKEConfig != nil {
		in.Namespace, in.HostNetwork = f.Management.Name, true
	}
	return in
}

// Problem says in one line, without secrets, why the manifest for the agent of a cluster that Drover makes cannot be
// rendered. It is empty when it can.
func Problem(source Source, cluster *mgmtv3.Cluster) string {
	err := source.Input(cluster, "a-token", nil).check()
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(redact.Text(err.Error()), "\n", "; ")
}

// Digest returns the digest of rendered objects.
func Digest(objects []runtime.Object) string {
	if deployment, ok := objects[len(objects)-1].(*appsv1.Deployment); ok {
		return deployment.Annotations[DigestAnnotation]
	}
	return ""
}

// RegistrationToken returns the name of the ClusterRegistrationToken of a cluster's agent.
func RegistrationToken(cluster *provv1.Cluster) string {
	if cluster.Spec.RKEConfig == nil {
		return naming.DefaultRegistrationToken
	}
	return naming.SystemRegistrationToken
}

// Input is the input for the manifest of a cluster's agent that a user applies.
func (s Source) Input(cluster *mgmtv3.Cluster, token string, pullSecrets []PullSecret) Input {
	in := For(cluster, s.Image, s.Registry)
	in.ServerURL, in.CAChecksum, in.Token, in.PullSecrets = s.ServerURL, s.CAChecksum, token, pullSecrets
	return in
}

// ReadPullSecrets reads the pull secrets for the image of a cluster's agent. An image from the default registry gets
// all of them. An image from the registry that the installation's image names gets those that list this registry. It
// skips a Secret that is missing or unusable, and passes the reason to warn.
func (s Source) ReadPullSecrets(cluster *mgmtv3.Cluster, get func(namespace, name string) (*corev1.Secret, error),
	warn func(secret types.NamespacedName, problem string),
) ([]PullSecret, error) {
	image := For(cluster, s.Image, s.Registry).Image
	all := naming.InRegistry(s.Registry, image)
	if !all && image != s.Image {
		return nil, nil // the cluster has its own registry, so these Secrets do not apply
	}
	var found []PullSecret
	for _, key := range s.PullSecrets {
		secret, err := get(key.Namespace, key.Name)
		if apierrors.IsNotFound(err) {
			warn(key, "A pull secret of the default registry does not exist")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read pull secret %s: %w", key, err)
		}
		usable, problem := pullSecretOf(secret)
		if problem != "" {
			warn(key, problem)
			continue
		}
		if !all && !naming.ListsRegistry(usable.DockerConfigJSON, image) {
			continue
		}
		found = append(found, usable)
	}
	return found, nil
}
