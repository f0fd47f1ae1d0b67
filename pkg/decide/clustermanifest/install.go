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
	"github.com/drover-io/drover/pkg/decide/pullsecret"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Source is what manifests are made from, the same for all clusters.
type Source struct {
	// ServerURL is the https URL of the server, without a path; CAChecksum the hexadecimal SHA-256 of its authorities, empty when the system's know it.
	ServerURL, CAChecksum string
	// Image is the agent's, without a registry of clusters before it.
	Image string
	// Registry is that of clusters that name none; empty for none.
	Registry string
	// PullSecrets are for Registry, and for the registries that they list, of type kubernetes.io/dockerconfigjson.
	PullSecrets []types.NamespacedName
}

// Facts are what is known of a cluster that Drover makes.
type Facts struct {
	Cluster    *provv1.Cluster
	Management *mgmtv3.Cluster
	// Initialized is true once a server of the cluster has answered.
	Initialized bool
	// Token is the registration token of the cluster's agent; empty while there is none.
	Token string
	// Stored is the Secret with the manifest; nil when there is none.
	Stored *corev1.Secret
	// Kubeconfig is true when the Secret with the cluster's kubeconfig exists: somebody has reached the cluster already.
	Kubeconfig bool
	// EndpointKeys is the Secret with the keys of the cluster's authorized endpoint; nil when there is none.
	EndpointKeys *corev1.Secret
	// PullSecrets are those of the source that exist.
	PullSecrets []PullSecret
}

// Install returns the Secret from which the plans of a cluster's servers take the manifest of its agent; nil when there is nothing to write.
//
// It is written once: another manifest would be another plan of servers that nobody has touched, whenever Drover itself is upgraded. Only while no agent of the
// cluster has ever been connected it follows what it is made from, because a wrong one, with an image that is not to be had for example, could be mended in no
// other way. A cluster that had been made before there were agents gets none, until somebody has installed one in it: then it is told apart by its condition
// AgentDeployed, and servers that come later keep what it was given.
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
			Annotations:     map[string]string{rkev1.ReachedByAgentAnnotation: "true"}, // or the agent has been connected: no other way is tried any more
			OwnerReferences: []metav1.OwnerReference{topology.OwnerReference(f.Cluster, false)},
		},
		Type: rkev1.SecretTypeClusterAgent,
		Data: data,
	}, nil
}

// wanted tells whether the Secret is to be written now: see Install.
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

// renewed is a Secret with other data; nil when it has them.
func renewed(stored *corev1.Secret, data map[string][]byte) *corev1.Secret {
	if equality.Semantic.DeepEqual(stored.Data, data) {
		return nil
	}
	secret := stored.DeepCopy()
	secret.Data = data
	return secret
}

// Desired is what the agent of a cluster is to be installed with now. In a cluster that was imported it is what the command for that has installed.
func Desired(source Source, f Facts) ([]runtime.Object, error) {
	in := source.Input(f.Management, f.Token, f.PullSecrets)
	if f.Cluster.Spec.RKEConfig != nil {
		in.Namespace, in.HostNetwork = f.Management.Name, true
	}
	return Render(in)
}

// Problem says, in one line without secrets, why no manifest can be made for the agent of a cluster that Drover makes; empty when one can.
func Problem(source Source, cluster *mgmtv3.Cluster) string {
	err := source.Input(cluster, "a-token", nil).check()
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(redact.Text(err.Error()), "\n", "; ")
}

// Digest is that of rendered objects.
func Digest(objects []runtime.Object) string {
	if deployment, ok := objects[len(objects)-1].(*appsv1.Deployment); ok {
		return deployment.Annotations[DigestAnnotation]
	}
	return ""
}

// RegistrationToken is the ClusterRegistrationToken of the agent of a cluster.
func RegistrationToken(cluster *provv1.Cluster) string {
	if cluster.Spec.RKEConfig == nil {
		return naming.DefaultRegistrationToken
	}
	return naming.SystemRegistrationToken
}

// Input is what the manifest of a cluster's agent is rendered from, as a user applies it.
func (s Source) Input(cluster *mgmtv3.Cluster, token string, pullSecrets []PullSecret) Input {
	in := For(cluster, s.Image, s.Registry)
	in.ServerURL, in.CAChecksum, in.Token, in.PullSecrets = s.ServerURL, s.CAChecksum, token, pullSecrets
	return in
}

// ReadPullSecrets reads those of the source's pull secrets that the image of a cluster's agent is pulled with: all where it comes from the default registry; where
// it comes from the one that the installation has named with it, those that list that one. One that is not there, or cannot be used, is left out, and warn
// is told why.
func (s Source) ReadPullSecrets(cluster *mgmtv3.Cluster, get func(namespace, name string) (*corev1.Secret, error), warn func(secret types.NamespacedName, problem string),
) ([]PullSecret, error) {
	image := For(cluster, s.Image, s.Registry).Image
	all := pullsecret.In(s.Registry, image)
	if !all && image != s.Image {
		return nil, nil // the cluster has a registry of its own, whatever else the Secrets are good for
	}
	var found []PullSecret
	for _, key := range s.PullSecrets {
		secret, err := get(key.Namespace, key.Name)
		if apierrors.IsNotFound(err) {
			warn(key, "A pull secret of the default registry is not there")
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
		if !all && !pullsecret.Lists(usable.DockerConfigJSON, image) {
			continue
		}
		found = append(found, usable)
	}
	return found, nil
}
