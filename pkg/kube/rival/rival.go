// Package rival detects another manager of clusters in the management cluster. Two managers of one cluster overwrite
// each other, so Drover claims and adopts nothing while it detects one.
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

// Signs of Rancher.
const (
	// DeploymentNamespace and DeploymentName name the Deployment that runs Rancher.
	DeploymentNamespace = "cattle-system"
	DeploymentName      = "rancher"
	// LeaseNamespace and LeaseName name the lease of the replica that runs Rancher's controllers, wherever it runs.
	LeaseNamespace = "kube-system"
	LeaseName      = "cattle-controllers"
)

// SwitchOff is the command that switches Rancher off.
const SwitchOff = "kubectl -n " + DeploymentNamespace + " scale deployment " + DeploymentName + " --replicas=0"

// Rancher returns why Rancher counts as running, or "" if it does not. It runs if its Deployment wants replicas, even
// if none is up at the moment, or if a replica holds the lease. Call it before claiming a cluster. It reads live
// objects, because no later event corrects a wrong claim. It fails if the user may not read them.
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

// wanted reports whether a Deployment should have replicas. The API server defaults to one.
func wanted(deployment *appsv1.Deployment) bool {
	return deployment.DeletionTimestamp == nil && (deployment.Spec.Replicas == nil || *deployment.Spec.Replicas > 0)
}

// clocks is the tolerated difference between clocks.
const clocks = 15 * time.Second

// holderOf returns the holder of a lease, or "" if the lease is missing, has no holder or has expired.
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

// held reports whether a lease has a holder and has not expired.
func held(lease *coordinationv1.Lease, now time.Time) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil ||
		spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second + clocks))
}
