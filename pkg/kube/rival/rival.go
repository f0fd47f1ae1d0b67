// Package rival looks for another manager of clusters in the management cluster. Two managers of one cluster fight over it, so nothing is claimed or
// adopted while one is seen.
package rival

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// What is seen of Rancher.
const (
	// DeploymentNamespace and DeploymentName are those of the Deployment that runs it.
	DeploymentNamespace = "cattle-system"
	DeploymentName      = "rancher"
	// LeaseNamespace and LeaseName are those of the lease of the replica that runs its controllers, wherever that is.
	LeaseNamespace = "kube-system"
	LeaseName      = "cattle-controllers"
)

// SwitchOff is the command that switches Rancher off.
const SwitchOff = "kubectl -n " + DeploymentNamespace + " scale deployment " + DeploymentName + " --replicas=0"

// Rancher says why Rancher counts as running, empty when it does not: its Deployment wants replicas, so that it comes back when none runs at the
// moment, or a replica holds the lease. It is asked before a cluster is claimed, which no later event corrects: no cache is good enough.
// Who may not read the two gets an error.
func Rancher(ctx context.Context, client kubernetes.Interface, now time.Time) (string, error) {
	deployment, err := client.AppsV1().Deployments(DeploymentNamespace).Get(ctx, DeploymentName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read the Deployment of Rancher: %w", err)
	}
	if err == nil && wanted(deployment) {
		return "Deployment " + DeploymentNamespace + "/" + DeploymentName + " wants replicas", nil
	}
	holder, err := holderOf(ctx, client, LeaseNamespace, LeaseName, now)
	if err != nil {
		return "", fmt.Errorf("read the lease that Rancher holds while it runs: %w", err)
	}
	if holder != "" {
		return holder + " holds lease " + LeaseNamespace + "/" + LeaseName, nil
	}
	return "", nil
}

// wanted reports that a Deployment shall have replicas. One is what the API server takes when no number is given.
func wanted(deployment *appsv1.Deployment) bool {
	return deployment.DeletionTimestamp == nil && (deployment.Spec.Replicas == nil || *deployment.Spec.Replicas > 0)
}

// clocks is by how much clocks may differ.
const clocks = 15 * time.Second

// holderOf is who holds a lease, empty when nobody does, it has run out, or there is none.
func holderOf(ctx context.Context, client kubernetes.Interface, namespace, name string, now time.Time) (string, error) {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil || !held(lease, now) {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// held reports that a lease has a holder, and has not run out.
func held(lease *coordinationv1.Lease, now time.Time) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second + clocks))
}
