package bootstrap

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// names holds the names of all objects of one bootstrap object.
type names struct {
	plan, bootstrap, token string
}

func namesOf(bootstrap string) names {
	n := names{plan: naming.PlanSecret(bootstrap), bootstrap: naming.BootstrapSecret(bootstrap)}
	// The token's name follows from the account's, so that a reconcile finds the token of an interrupted one.
	n.token = naming.SafeConcat(n.bootstrap, "token")
	return n
}

func (s snapshot) meta(name string, labels, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.bootstrap.Namespace, Name: name, Labels: labels, Annotations: annotations}
}

// accountLabels returns the labels by which the endpoint for machines and this controller find an account.
func (s snapshot) accountLabels(role string) map[string]string {
	return map[string]string{
		rkev1.MachineNameLabel:        s.machine.Name,
		rkev1.BootstrapNameLabel:      s.bootstrap.Name,
		rkev1.ServiceAccountRoleLabel: role,
	}
}

// objects returns the accounts of a machine and the rights of its agent.
func (s snapshot) objects() []runtime.Object {
	n := namesOf(s.bootstrap.Name)
	planLabels := s.accountLabels(rkev1.ServiceAccountRolePlan)
	planLabels[rkev1.PlanSecretNameLabel] = n.plan
	objects := []runtime.Object{
		&corev1.ServiceAccount{ObjectMeta: s.meta(n.plan, planLabels, nil)},
		&rbacv1.Role{ObjectMeta: s.meta(n.plan, nil, nil), Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"watch", "get", "update", "list"}, APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{n.plan},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: s.meta(n.plan, nil, nil),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: n.plan},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: n.plan,
				Namespace: s.bootstrap.Namespace}},
		},
	}
	if s.controlPlane == nil {
		return objects
	}
	reference := map[string]string{rkev1.ServiceAccountSecretRefAnnotation: s.bootstrap.Namespace + "/" + n.token}
	return append(objects, &corev1.ServiceAccount{
		ObjectMeta: s.meta(n.bootstrap, s.accountLabels(rkev1.ServiceAccountRoleBootstrap), reference),
	})
}

// planSecret returns the Secret to which the planner writes the plan. Its labels inform tools and backups. The planner
// uses only the Machine and the bootstrap object, because the node can change this Secret.
func (s snapshot) planSecret() *corev1.Secret {
	labels := map[string]string{
		rkev1.MachineNameLabel: s.machine.Name,
		rkev1.ClusterNameLabel: s.machine.Spec.ClusterName,
		rkev1.BackupLabel:      "true",

		rkev1.PlanMachineGroupLabel: clusterv1.GroupVersion.Group,
		rkev1.PlanMachineKindLabel:  "Machine",
		rkev1.PlanMachineNameLabel:  s.machine.Name,
		rkev1.PlanClusterGroupLabel: clusterv1.GroupVersion.Group,
		rkev1.PlanClusterKindLabel:  "Cluster",
		rkev1.PlanClusterNameLabel:  s.machine.Spec.ClusterName,
	}
	maps.Copy(labels, s.bootstrap.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "objectset.rio.cattle.io/") })
	annotations := maps.Clone(s.bootstrap.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return key == rkev1.AgentCredentialAnnotation || strings.HasPrefix(key, "objectset.rio.cattle.io/") ||
			strings.HasPrefix(key, "kubectl.kubernetes.io/")
	})
	return &corev1.Secret{
		ObjectMeta: s.owned(s.meta(namesOf(s.bootstrap.Name).plan, labels, annotations)),
		Type:       rkev1.SecretTypeMachinePlan,
	}
}

// tokenSecret returns a Secret that requests a token of the machine's bootstrap account from the API server.
func (s snapshot) tokenSecret() *corev1.Secret {
	n := namesOf(s.bootstrap.Name)
	meta := s.meta(n.token, map[string]string{
		rkev1.ServiceAccountNameLabel: n.bootstrap, rkev1.BootstrapNameLabel: s.bootstrap.Name,
		rkev1.MachineNameLabel: s.machine.Name,
	}, map[string]string{
		corev1.ServiceAccountNameKey: n.bootstrap, rkev1.BootstrapTokenAnnotation: "true",
	})
	meta.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ServiceAccount", Name: s.account.Name, UID: s.account.UID, Controller: new(true),
	}}
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
}

// formatKey is the key of the format of bootstrap data, for providers of Cluster API that take several formats. A plain
// script has none.
const formatKey = "format"

// dataSecret returns the Secret with the bootstrap data. Its label makes Cluster API and its providers cache it
// (docs/wire/secrets.md#bootstrap-data).
func (s snapshot) dataSecret(data string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: s.owned(s.meta(namesOf(s.bootstrap.Name).bootstrap,
			map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name}, nil)),
		Type: rkev1.SecretTypeBootstrap,
		Data: map[string][]byte{rkev1.BootstrapDataKey: []byte(data)},
	}
	if !ownInfrastructure(s.machine.Spec.InfrastructureRef.APIGroup) {
		secret.Data[formatKey] = []byte("cloud-config")
	}
	return secret
}

// owned makes the bootstrap object the owner.
func (s snapshot) owned(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEBootstrap", Name: s.bootstrap.Name,
		UID:        s.bootstrap.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	return meta
}
