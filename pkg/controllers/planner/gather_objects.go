package planner

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/kube/access"
)

// gatherObjects reads the objects that the cluster's configuration, its snapshots and the server's settings refer to.
func (h *handler) gatherObjects(cp *rkev1.RKEControlPlane, v *view) error {
	own := append(render.References(cp.Namespace, &cp.Spec, render.Settings{}),
		snapshotReferences(cp, v.snapshot.Snapshots)...)
	refs := render.References(cp.Namespace, &cp.Spec, v.snapshot.Settings)
	for _, ref := range own {
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	for _, ref := range refs {
		out, err := h.gatherObject(ref)
		if err != nil {
			return err
		}
		if ref.Namespace != cp.Namespace && slices.Contains(own, ref) {
			if out, err = h.judge(cp, v, ref, out); err != nil {
				return err
			}
		}
		if out != nil {
			v.snapshot.Objects = append(v.snapshot.Objects, *out)
		}
	}
	return nil
}

// gatherObject reads one object, nil if it does not exist.
func (h *handler) gatherObject(ref render.Reference) (*planner.Object, error) {
	out := &planner.Object{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name}
	var err error
	switch ref.Kind {
	case render.KindSecret:
		var secret *corev1.Secret
		if secret, err = h.Secrets.Cache().Get(ref.Namespace, ref.Name); err == nil {
			out.Type, out.Annotations, out.Data = secret.Type, secret.Annotations, secret.Data
		}
	case render.KindConfigMap:
		var config *corev1.ConfigMap
		if config, err = h.ConfigMaps.Cache().Get(ref.Namespace, ref.Name); err == nil {
			out.Annotations, out.Data = config.Annotations, maps.Clone(config.BinaryData)
			if out.Data == nil {
				out.Data = map[string][]byte{}
			}
			for key, value := range config.Data {
				out.Data[key] = []byte(value)
			}
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return out, nil
}

// judge checks whether the cluster may use a Secret in another namespace. If not, it hides the data and whether the
// Secret exists. It keeps the data if the server's own settings name the same Secret.
func (h *handler) judge(cp *rkev1.RKEControlPlane, v *view, ref render.Reference,
	found *planner.Object) (*planner.Object, error) {
	if h.Access == nil {
		return found, nil
	}
	cluster, err := h.ProvisioningClusters.Cache().Get(cp.Namespace, cp.Name)
	if apierrors.IsNotFound(err) {
		cluster, err = &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: cp.Name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	var annotations map[string]string
	if found != nil {
		annotations = found.Annotations
	}
	verdict, because := h.Access.Check(cluster, ref.NamespacedName, annotations)
	switch verdict {
	case access.Allowed:
		return found, nil
	case access.Unknown:
		v.unknown = true
		return nil, nil
	case access.Denied:
	}
	if replaced(cp, cluster, ref) {
		v.unknown = true // the update of the control plane's spec wakes it
		return nil, nil
	}
	denied := &planner.Object{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name, Denied: because}
	if found != nil && slices.Contains(v.snapshot.Settings.RegistryPullSecrets, ref.NamespacedName) {
		denied.Type, denied.Data = found.Type, found.Data
	}
	return denied, nil
}

// replaced reports that the Cluster no longer names the Secret, and its control plane is about to be updated. The grant
// ended with the reference, so rendering has not failed.
func replaced(cp *rkev1.RKEControlPlane, cluster *provv1.Cluster, ref render.Reference) bool {
	stands := slices.ContainsFunc(tenancy.References(cluster), func(r tenancy.Reference) bool {
		return r.NamespacedName == ref.NamespacedName
	})
	return !stands && slices.Contains(render.References(cp.Namespace, &cp.Spec, render.Settings{}), ref)
}
