package clusteragent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Uninstall removes the agent from a cluster, through that agent. It removes everything that the installation applied,
// except the namespace, which may hold other objects. It leaves what Drover did not install.
//
// Deleting any object first could remove what is needed to delete the others: the agent, its right to impersonate, or
// Drover's own rights. So the binding of Drover's rights becomes the owner of all objects. Its deletion is the last
// request, and the cluster's garbage collector deletes the rest.
func Uninstall(ctx context.Context, downstream proxy.ClientGetter, cluster types.NamespacedName) error {
	client, err := downstream.Client(ctx, cluster)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	deployment, err := client.AppsV1().Deployments(clustermanifest.Namespace).Get(ctx, clustermanifest.Deployment,
		metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // it was deleted, or Drover has lost its rights
		return nil
	case err != nil:
		return fmt.Errorf("read the agent's objects: %w", err)
	case deployment.Annotations[clustermanifest.DigestAnnotation] == "":
		return nil
	}
	binding, err := client.RbacV1().ClusterRoleBindings().Get(ctx, clustermanifest.AdminBinding, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ClusterRoleBinding %s: %w", clustermanifest.AdminBinding, err)
	}
	parts, err := installed(ctx, client, deployment)
	if err != nil {
		return err
	}
	if err := setOwner(ctx, client, binding, parts); err != nil {
		return err
	}
	err = client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(binding.UID)),
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ClusterRoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// installed returns the paths of the objects that an agent of any release was installed with, except the binding of
// Drover's rights.
func installed(ctx context.Context, client kubernetes.Interface, deployment *appsv1.Deployment) ([]string, error) {
	within := "/namespaces/" + clustermanifest.Namespace
	parts := []string{
		"/apis/apps/v1" + within + "/deployments/" + deployment.Name,
		"/apis/policy/v1" + within + "/poddisruptionbudgets/" + clustermanifest.Budget,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + clustermanifest.AgentRole,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/" + clustermanifest.AgentRole,
		"/api/v1" + within + "/serviceaccounts/" + clustermanifest.ServiceAccount,
		"/apis/apps/v1" + within + "/daemonsets/" + clustermanifest.Auth,
		"/api/v1" + within + "/configmaps/" + clustermanifest.Auth,
	}
	secrets, err := client.CoreV1().Secrets(clustermanifest.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the agent's Secrets: %w", err)
	}
	for i := range secrets.Items {
		_, pulls := secrets.Items[i].Labels[clustermanifest.PullSecretLabel]
		if name := secrets.Items[i].Name; pulls || strings.HasPrefix(name, clustermanifest.CredentialPrefix) {
			parts = append(parts, "/api/v1"+within+"/secrets/"+name)
		}
	}
	classes, err := client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the agent's PriorityClasses: %w", err)
	}
	for i := range classes.Items {
		if name := classes.Items[i].Name; strings.HasPrefix(name, clustermanifest.PriorityClass) {
			parts = append(parts, "/apis/scheduling.k8s.io/v1/priorityclasses/"+name)
		}
	}
	return parts, nil
}

// setOwner makes the binding the owner of objects. Missing objects are skipped, because not every agent has them.
func setOwner(ctx context.Context, client kubernetes.Interface, to *rbacv1.ClusterRoleBinding, parts []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{
		{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding", Name: to.Name, UID: to.UID},
	}}})
	if err != nil {
		return fmt.Errorf("encode the owner of the agent's objects: %w", err)
	}
	for _, part := range parts {
		err := client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(part).Body(patch).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("set the owner of %s: %w", part, err)
		}
	}
	return nil
}
