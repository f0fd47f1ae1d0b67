package clusteragent

import (
	"context"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
)

// removeLeftovers deletes the disruption budget and the priority classes of earlier manifests, after the agent with the
// present manifest has connected. No pod uses them any more.
func removeLeftovers(ctx context.Context, client kubernetes.Interface, objects []runtime.Object) error {
	class, budgeted := "", false
	for _, object := range objects {
		switch wanted := object.(type) {
		case *schedulingv1.PriorityClass:
			class = wanted.Name
		case *policyv1.PodDisruptionBudget:
			budgeted = true
		}
	}
	if !budgeted {
		err := removeBudget(ctx, client, always)
		if err != nil {
			return fmt.Errorf("remove PodDisruptionBudget %s: %w", clustermanifest.Budget, err)
		}
	}
	classes, err := client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the agent's PriorityClasses: %w", err)
	}
	for i := range classes.Items {
		found := &classes.Items[i]
		// Other managers use the name without a digest.
		if !strings.HasPrefix(found.Name, clustermanifest.PriorityClass+"-") || found.Name == class {
			continue
		}
		err := client.SchedulingV1().PriorityClasses().Delete(ctx, found.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove PriorityClass %s: %w", found.Name, err)
		}
	}
	return nil
}

// clearBudget deletes a disruption budget whose limit is in another field than the wanted one. A budget may have only
// one limit, and another field manager may own the present one.
func clearBudget(ctx context.Context, client kubernetes.Interface, wanted *policyv1.PodDisruptionBudget) error {
	err := removeBudget(ctx, client, func(found *policyv1.PodDisruptionBudget) bool {
		return (found.Spec.MinAvailable != nil) != (wanted.Spec.MinAvailable != nil)
	})
	if err != nil {
		return fmt.Errorf("replace PodDisruptionBudget %s: %w", clustermanifest.Budget, err)
	}
	return nil
}

func always(*policyv1.PodDisruptionBudget) bool { return true }

func removeBudget(ctx context.Context, client kubernetes.Interface,
	removes func(*policyv1.PodDisruptionBudget) bool) error {
	budgets := client.PolicyV1().PodDisruptionBudgets(clustermanifest.Namespace)
	found, err := budgets.Get(ctx, clustermanifest.Budget, metav1.GetOptions{})
	if err == nil && removes(found) {
		err = budgets.Delete(ctx, found.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
