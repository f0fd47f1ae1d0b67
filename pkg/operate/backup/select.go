package backup

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/controllers/clustersync"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/reach/connect"
)

const (
	kindCRD        = "CustomResourceDefinition"
	kindSecret     = "Secret"
	groupMachines  = driverschema.MachineGroup
	systemSpace    = controllers.SystemNamespace
	providerLabel  = "cluster.x-k8s.io/provider"
	providerOfCAPI = "cluster-api"
)

// AuthorityName is the name of the Secret with the authority of the endpoints for machines. It is stored.
const AuthorityName = "drover-ca"

// coreKinds are the kinds of Kubernetes from which a backup selects single objects.
var coreKinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

// whole reports whether all objects of a definition belong to a backup. Drover's definitions have the label. The
// definitions of Cluster API's core always belong, because every cluster uses them.
func whole(crd *unstructured.Unstructured) bool {
	labels := crd.GetLabels()
	return labels[rkev1.BackupLabel] == "true" || labels[providerLabel] == providerOfCAPI
}

// Derived names the program that creates an object again, for objects next to clusters that no backup contains. An
// empty string means that the object must be in the backup.
func Derived(object *unstructured.Unstructured) string {
	switch object.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: kindSecret}:
		if accountToken(object) && object.GetAnnotations()[rkev1.BootstrapTokenAnnotation] != "true" {
			return "the API server signs tokens of accounts, and agents keep their tokens"
		}
	case schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Kind: "Pod"}:
		return "an ended Job is not needed, and a running Job ends in its own management cluster"
	case schema.GroupKind{Kind: "ServiceAccount"}:
		if object.GetName() == "default" {
			return "Kubernetes creates it in every namespace"
		}
	case schema.GroupKind{Kind: "ConfigMap"}:
		if object.GetName() == "kube-root-ca.crt" {
			return "Kubernetes creates it in every namespace"
		}
	case schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, schema.GroupKind{Kind: "Event"},
		schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}:
		return "it describes a moment"
	}
	return ""
}

func accountToken(object *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(object.Object, "type")
	return object.GetKind() == kindSecret && kind == string(corev1.SecretTypeServiceAccountToken)
}

// world is everything that can belong to a backup.
type world struct {
	// kinds are all objects of the kinds that are backed up completely. core are the objects of coreKinds.
	kinds, core []*unstructured.Unstructured
	// settings are the server's settings. They name Secrets that the server uses itself.
	settings render.Settings
}

// choose returns the objects that belong to a backup of the namespaces. Without namespaces it selects all clusters.
func (w *world) choose(namespaces []string) ([]*unstructured.Unstructured, error) {
	c := chosen{world: w, in: map[types.UID]bool{}, identities: map[string]bool{}, namespaces: namespaces}
	for _, object := range w.kinds {
		if object.GroupVersionKind().GroupKind() == provisioningKind && c.asked(object.GetNamespace()) {
			id, _, _ := unstructured.NestedString(object.Object, "status", "clusterName")
			c.identities[id] = id != ""
		}
	}
	for _, object := range w.kinds {
		if c.ofNamespaces(object) {
			c.take(object)
		}
	}
	for _, object := range w.core {
		// Without its original, Drover would delete a copy from the cluster.
		copied := clustersync.IsSource(object.GetAnnotations()) &&
			object.GetLabels()[provv1.KubeconfigTypeLabel] == "" // its token is of no use elsewhere
		if (copied || object.GetLabels()[rkev1.BackupLabel] == "true") && c.ofNamespaces(object) {
			c.take(object)
		}
	}
	if err := c.takeReferred(); err != nil {
		return nil, err
	}
	c.takeOwned()
	c.noteCredentials()
	return c.objects, nil
}

var (
	provisioningKind = schema.GroupKind{Group: "provisioning.cattle.io", Kind: "Cluster"}
	controlPlaneKind = schema.GroupKind{Group: "rke.cattle.io", Kind: "RKEControlPlane"}
	bootstrapKind    = schema.GroupKind{Group: "rke.cattle.io", Kind: "RKEBootstrap"}
	snapshotKind     = schema.GroupKind{Group: "rke.cattle.io", Kind: "ETCDSnapshot"}
)

type chosen struct {
	*world
	namespaces []string
	// identities are the names of the selected clusters' management Clusters.
	identities map[string]bool
	in         map[types.UID]bool
	objects    []*unstructured.Unstructured
}

func (c *chosen) asked(namespace string) bool {
	return len(c.namespaces) == 0 || slices.Contains(c.namespaces, namespace)
}

// ofNamespaces reports whether an object belongs to the selected namespaces. That is an object in such a namespace or
// in the namespace of one of its clusters, or the management Cluster of one. All other objects without a namespace
// belong to every backup: drivers and what is derived from them.
func (c *chosen) ofNamespaces(object *unstructured.Unstructured) bool {
	if namespace := object.GetNamespace(); namespace != "" {
		return c.asked(namespace) || c.identities[namespace]
	}
	if object.GroupVersionKind().Group == "management.cattle.io" && object.GetKind() == "Cluster" {
		return len(c.namespaces) == 0 || c.identities[object.GetName()]
	}
	return true
}

func (c *chosen) take(object *unstructured.Unstructured) {
	if !c.in[object.GetUID()] && Derived(object) == "" {
		c.in[object.GetUID()] = true
		c.objects = append(c.objects, object)
	}
}

// takeOwned adds what selected objects own, for example the accounts of machines and their permissions.
func (c *chosen) takeOwned() {
	for before := -1; before != len(c.objects); {
		before = len(c.objects)
		for _, object := range c.core {
			if slices.ContainsFunc(ownerUIDs(object), func(uid types.UID) bool { return c.in[uid] }) {
				c.take(object)
			}
		}
	}
}

// takeReferred adds the users' Secrets and ConfigMaps that clusters name: credentials for clouds, registries and
// storage, and files for nodes. It also adds two Secrets of Drover. Without the authority of the endpoints for
// machines, no agent trusts another server. Without the key of grants, references to other namespaces are void.
func (c *chosen) takeReferred() error {
	refs := map[render.Reference]bool{}
	add := func(namespace, name string) {
		if name != "" {
			refs[render.Reference{Kind: render.KindSecret, NamespacedName: types.NamespacedName{Namespace: namespace,
				Name: name}}] = true
		}
	}
	add(systemSpace, AuthorityName)
	add(systemSpace, access.KeySecret)
	for _, object := range c.objects {
		if err := c.refer(object, add, refs); err != nil {
			return fmt.Errorf("read %s: %w", describe(object), err)
		}
	}
	for _, object := range c.core {
		ref := render.Reference{Kind: render.ObjectKind(object.GetKind()),
			NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}
		if refs[ref] {
			c.take(object)
		}
	}
	return nil
}

func (c *chosen) refer(object *unstructured.Unstructured, add func(namespace, name string),
	refs map[render.Reference]bool) error {
	kind := object.GroupVersionKind().GroupKind()
	switch {
	case kind == provisioningKind:
		var cluster provv1.Cluster
		if err := into(object, &cluster); err != nil {
			return err
		}
		for _, reference := range topology.Credentials(&cluster) {
			add(topology.CredentialSecret(cluster.Namespace, reference))
		}
	case kind == controlPlaneKind:
		var plane rkev1.RKEControlPlane
		if err := into(object, &plane); err != nil {
			return err
		}
		for _, ref := range render.References(plane.Namespace, &plane.Spec, c.settings) {
			refs[ref] = true
		}
	case kind == snapshotKind:
		var snapshot rkev1.ETCDSnapshot
		if err := into(object, &snapshot); err != nil {
			return err
		}
		for _, ref := range render.StorageReferences(snapshot.Namespace, snapshot.SnapshotFile.S3) {
			refs[ref] = true
		}
	case kind.Group == groupMachines:
		for _, reference := range machineCredentials(object) {
			add(topology.CredentialSecret(object.GetNamespace(), reference))
		}
	}
	return nil
}

// machineCredentials returns the credential that the machine was created with. Drover removes the machine with it, even
// if the cluster names another one now.
func machineCredentials(object *unstructured.Unstructured) []string {
	var references []string
	for _, path := range [][]string{{"status", "cloudCredentialSecretName"},
		{"spec", "common", "cloudCredentialSecretName"}} {
		if reference, _, _ := unstructured.NestedString(object.Object, path...); reference != "" {
			references = append(references, reference)
		}
	}
	return references
}

func into(object *unstructured.Unstructured, typed any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
}

// noteCredentials annotates each RKEBootstrap with the digest that authenticates its machine's agent, unless the
// endpoint for machines has done so. The backup does not contain the token itself.
func (c *chosen) noteCredentials() {
	tokens := map[types.NamespacedName]string{}
	for _, object := range c.core {
		if accountToken(object) && object.GetAnnotations()[rkev1.BootstrapTokenAnnotation] != "true" {
			if token := secretValue(object, corev1.ServiceAccountTokenKey); token != "" {
				tokens[types.NamespacedName{Namespace: object.GetNamespace(),
					Name: object.GetAnnotations()[corev1.ServiceAccountNameKey]}] = token
			}
		}
	}
	for i, object := range c.objects {
		if object.GroupVersionKind().GroupKind() != bootstrapKind ||
			object.GetAnnotations()[rkev1.AgentCredentialAnnotation] != "" {
			continue
		}
		account := types.NamespacedName{Namespace: object.GetNamespace(), Name: naming.PlanSecret(object.GetName())}
		if token := tokens[account]; token != "" {
			noted := object.DeepCopy()
			annotate(noted, rkev1.AgentCredentialAnnotation, connect.AgentCredential(object.GetUID(), token))
			c.objects[i] = noted
		}
	}
}

func secretValue(object *unstructured.Unstructured, key string) string {
	var secret corev1.Secret
	if into(object, &secret) != nil {
		return ""
	}
	return string(secret.Data[key])
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// warnings lists what was under way. Such a backup is valid, but the state may have changed a moment later.
func warnings(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, object := range objects {
		if object.GetDeletionTimestamp() != nil {
			out = append(out, describe(object)+
				" is being deleted; a restore creates it without the deletion, so you must delete it again")
		}
		switch kind := object.GroupVersionKind().GroupKind(); {
		case kind.Group == "rke.cattle.io" && kind.Kind == "RKEControlPlane":
			out = append(out, underWay(object)...)
		case kind == clusterv1.GroupVersion.WithKind("Machine").GroupKind():
			if node, _, _ := unstructured.NestedString(object.Object, "status", "nodeRef", "name"); node == "" &&
				object.GetDeletionTimestamp() == nil {
				out = append(out, describe(object)+" is not a node yet; after a restore, you may have to replace it")
			}
		}
	}
	slices.Sort(out)
	return out
}

func underWay(object *unstructured.Unstructured) []string {
	var plane rkev1.RKEControlPlane
	if into(object, &plane) != nil {
		return nil
	}
	var out []string
	for _, record := range plane.Status.Operations {
		if record.State == rkev1.OperationStateRunning {
			out = append(out, describe(object)+": the operation "+record.Name+" is running")
		}
	}
	if ready := conditions.Get(plane.Status.Conditions, rkev1.ConditionReady); ready != nil &&
		ready.Status != rkev1.ConditionTrue {
		out = append(out, describe(object)+" has not settled: "+ready.Message)
	}
	return out
}
