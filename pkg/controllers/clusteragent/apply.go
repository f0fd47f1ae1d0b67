package clusteragent

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// applyAll applies a manifest over the installed one, which found belongs to.
func applyAll(ctx context.Context, client kubernetes.Interface, found *appsv1.Deployment,
	objects []runtime.Object) error {
	if err := takeOver(ctx, client, found); err != nil {
		return err
	}
	for _, object := range objects {
		if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
			if err := clearBudget(ctx, client, budget); err != nil {
				return err
			}
		}
		if err := proxy.Apply(ctx, client.CoreV1().RESTClient(), object); err != nil {
			return err
		}
	}
	return nil
}

// takeOver makes Drover the owner of a Deployment's fields that kubectl or the distribution wrote. Otherwise the API
// server would keep fields that are no longer in the manifest, such as a port or a variable. It changes only the
// ownership.
func takeOver(ctx context.Context, client kubernetes.Interface, found *appsv1.Deployment) error {
	writers := sets.New[string]()
	for _, entry := range found.ManagedFields {
		if entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "" {
			writers.Insert(entry.Manager)
		}
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(found, writers, proxy.FieldManager)
	if err != nil {
		return fmt.Errorf("take over the agent's objects: %w", err)
	}
	if patch == nil {
		return nil
	}
	_, err = client.AppsV1().Deployments(found.Namespace).Patch(ctx, found.Name, types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: proxy.FieldManager})
	if err != nil {
		return fmt.Errorf("take over Deployment %s/%s: %w", clustermanifest.Namespace, found.Name, err)
	}
	return nil
}
