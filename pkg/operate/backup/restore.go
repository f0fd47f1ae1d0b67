package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// RestoreOptions control a restore.
type RestoreOptions struct {
	// Client writes to the management cluster.
	Client dynamic.Interface
	// DryRun reports what would be created, and writes nothing.
	DryRun bool
	// ServedWithin is how long a new definition can take until its kind is served. 0 means one minute.
	ServedWithin time.Duration
	// Now is the clock. nil means time.Now.
	Now func() time.Time
}

// Result is what a restore did or would do.
type Result struct {
	// Created are the new objects. Kept are the objects that existed: restored earlier from this backup, equal, or
	// shared.
	Created, Kept []string
	// Clusters that were restored and wait for adoption, as NAMESPACE/NAME.
	Clusters []string
	// Warnings for the user.
	Warnings []string
}

// Restore creates the objects of a backup. The user can repeat an interrupted restore: an annotation marks what it has
// created. Restore refuses once one of the clusters was adopted.
func Restore(ctx context.Context, b *Backup, o RestoreOptions) (*Result, error) {
	if o.ServedWithin == 0 {
		o.ServedWithin = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &restore{RestoreOptions: o, id: b.Manifest.ID, backup: b, uids: map[types.UID]types.UID{},
		kinds: map[schema.GroupKind]served{}, result: &Result{}}
	existing, err := r.survey(ctx)
	if err != nil {
		return nil, err
	}
	r.result.Warnings = append(r.result.Warnings, b.Manifest.Warnings...)
	for _, object := range b.Objects {
		if withhold(object.DeepCopy()) {
			r.result.Warnings = append(r.result.Warnings, describe(object)+
				": its plan was not applied yet; the restore uses the previous plan, and the adoption of the "+
				"cluster lists the difference")
		}
	}
	r.result.Warnings = append(r.result.Warnings, replacedSince(b.Objects, o.Now())...)
	r.result.Warnings = append(r.result.Warnings, grantedBefore(b.Objects)...)
	for i, object := range b.Objects {
		if err := r.one(ctx, object, existing[i]); err != nil {
			return r.result, err
		}
	}
	return r.result, nil
}

type restore struct {
	RestoreOptions
	id     string
	backup *Backup
	// uids maps the UIDs in the backup to the current UIDs.
	uids   map[types.UID]types.UID
	kinds  map[schema.GroupKind]served
	result *Result
}

// served is the resource of a kind. status means that the kind has the subresource status.
type served struct {
	resource schema.GroupVersionResource
	status   bool
}

// survey looks for every object of the backup before the first write. The result is nil for an object that does not
// exist.
func (r *restore) survey(ctx context.Context) ([]*unstructured.Unstructured, error) {
	r.learnKinds()
	existing := make([]*unstructured.Unstructured, len(r.backup.Objects))
	var conflicts ConflictError
	for i, object := range r.backup.Objects {
		kind, ok := r.kinds[object.GroupVersionKind().GroupKind()]
		if !ok {
			return nil, fmt.Errorf("%s: the backup has no definition of its kind", describe(object))
		}
		found, err := r.Client.Resource(kind.resource).Namespace(object.GetNamespace()).Get(ctx, object.GetName(),
			metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("look for %s: %w", describe(object), err)
		}
		existing[i] = found
		r.compare(object, found, &conflicts)
	}
	if conflicts.any() {
		return nil, &conflicts
	}
	return existing, nil
}

// learnKinds finds the resources of all kinds. Kinds of Kubernetes are known. The backup contains the definitions of
// the others.
func (r *restore) learnKinds() {
	r.kinds[schema.GroupKind{Group: "apiextensions.k8s.io", Kind: kindCRD}] = served{resource: crds}
	r.kinds[schema.GroupKind{Kind: "Namespace"}] = served{resource: namespaces}
	for _, core := range coreKinds {
		kinds := map[string]string{
			"secrets": kindSecret, "configmaps": "ConfigMap", "serviceaccounts": "ServiceAccount", "roles": "Role",
			"rolebindings": "RoleBinding",
		}
		r.kinds[schema.GroupKind{Group: core.Group, Kind: kinds[core.Resource]}] = served{resource: core}
	}
	for _, crd := range r.backup.Objects {
		if crd.GetKind() != kindCRD {
			continue
		}
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		resource := resourceOf(crd)
		r.kinds[schema.GroupKind{Group: resource.Group, Kind: kind}] = served{resource: resource,
			status: hasStatus(crd, resource.Version)}
	}
}

func hasStatus(crd *unstructured.Unstructured, version string) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(one any) bool {
		v, _ := one.(map[string]any)
		name, _, _ := unstructured.NestedString(v, "name")
		_, status, _ := unstructured.NestedMap(v, "subresources", "status")
		return name == version && status
	})
}

// one restores one object. Its owners exist already.
func (r *restore) one(ctx context.Context, object, found *unstructured.Unstructured) error {
	if found != nil {
		r.uids[object.GetUID()] = found.GetUID()
		r.result.Kept = append(r.result.Kept, describe(object))
	} else {
		r.result.Created = append(r.result.Created, describe(object))
	}
	if object.GroupVersionKind().GroupKind() == provisioningKind {
		r.result.Clusters = append(r.result.Clusters, object.GetNamespace()+"/"+object.GetName())
	}
	if r.DryRun {
		return nil
	}
	kind := r.kinds[object.GroupVersionKind().GroupKind()]
	client := r.Client.Resource(kind.resource).Namespace(object.GetNamespace())
	wanted := r.target(object)
	if found == nil {
		var err error
		if found, err = client.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create %s: %w", describe(object), err)
		}
		r.uids[object.GetUID()] = found.GetUID()
	}
	if object.GetKind() == kindCRD {
		return r.awaitServed(ctx, object)
	}
	return r.restoreStatus(ctx, client, kind, wanted, found)
}

// restoreStatus writes the status of an object that this backup created, unless the object has a status. Cluster API
// can write to the object at the same time.
func (r *restore) restoreStatus(ctx context.Context, client dynamic.ResourceInterface, kind served, wanted,
	found *unstructured.Unstructured) error {
	status, has := wanted.Object["status"].(map[string]any)
	if !kind.status || !has || len(status) == 0 {
		return nil
	}
	err := clients.RetryOnConflict(retry.DefaultBackoff, func() error {
		if found.GetAnnotations()[rkev1.RestoredFromAnnotation] != r.id || !onlyPaused(found) {
			return nil
		}
		update := found.DeepCopy()
		update.Object["status"] = status
		_, err := client.UpdateStatus(ctx, update, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			live, again := client.Get(ctx, wanted.GetName(), metav1.GetOptions{})
			if again != nil {
				return again
			}
			found = live
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", describe(wanted), err)
	}
	return nil
}

// onlyPaused reports whether the status is empty or contains only the condition Paused. Cluster API writes that
// condition as soon as it sees an object of a paused cluster.
func onlyPaused(object *unstructured.Unstructured) bool {
	status, _ := object.Object["status"].(map[string]any)
	for key, value := range status {
		list, _ := value.([]any)
		others := slices.ContainsFunc(list, func(one any) bool {
			condition, _ := one.(map[string]any)
			return condition["type"] != clusterv1.PausedCondition
		})
		if key != "conditions" || others {
			return false
		}
	}
	return true
}

// awaitServed waits until objects of a definition can be created.
func (r *restore) awaitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	resource := resourceOf(crd)
	last := errors.New("the check did not start in time")
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, r.ServedWithin, true,
		func(ctx context.Context) (bool, error) {
			_, err := r.Client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil && ctx.Err() == nil {
				last = err
			}
			return err == nil, nil
		})
	if err != nil {
		return fmt.Errorf("the API server does not serve %s in version %s: %w", describe(crd), resource.Version, last)
	}
	return nil
}
