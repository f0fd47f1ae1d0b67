package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	// lookAgain is the time between visits to a cluster whose autoscaler is not available, and resync to all others.
	lookAgain, resync = 10 * time.Second, 10 * time.Minute
	// longestProblem limits what is repeated of a cluster's answer, in bytes.
	longestProblem = 200
)

// sight is what a visit found.
type sight struct {
	// version is that of the program that the cluster has.
	version string
	state   autoscaling.State
}

// version identifies a program; nil is none.
func version(program *autoscaling.Program) string {
	if program == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *program)
}

// program returns the autoscaler that a cluster must have, or nil.
func (h *handler) program(facts *Facts) (*autoscaling.Program, error) {
	cluster := facts.cluster
	if h.Settings.Image == "" || !autoscaling.Wanted(cluster) {
		return nil, nil
	}
	kubeconfig, err := h.kubeconfig().Digest()
	if err != nil {
		return nil, err
	}
	return autoscaling.For(cluster, h.Settings.Image, facts.registry, kubeconfig), nil
}

// kubeconfig is the same for all clusters.
func (h *handler) kubeconfig() autoscaling.Kubeconfig {
	return autoscaling.Kubeconfig{ServerURL: h.Settings.ServerURL, CACerts: h.Settings.CACerts,
		Copy: h.Settings.Image != ""}
}

// visit makes the objects in a cluster equal to the wanted ones.
func (h *handler) visit(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	cluster, err := clients.Optional(h.clusters.Get(name.Namespace, name.Name))
	if err != nil || cluster == nil || !h.deploys(cluster) {
		return 0, err
	}
	facts, err := h.gather(cluster)
	if err != nil || facts == nil {
		return 0, err
	}
	program, err := h.program(facts)
	if err != nil {
		return 0, err
	}
	client, err := h.Downstream.Client(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("reach the cluster: %w", err)
	}
	found := sight{version: version(program)}
	if found.state, err = bring(ctx, client, program); err != nil {
		return 0, err
	}
	h.see(name, found)
	if program == nil {
		return 0, nil
	}
	if problem := autoscaling.Judge(program, found.state, true); problem == nil {
		return resync, nil
	}
	return lookAgain, nil
}

// bring makes the objects equal to those of the program, or removes them if there is none. A refusal of the cluster is
// part of the returned state.
func bring(ctx context.Context, client kubernetes.Interface, program *autoscaling.Program) (autoscaling.State, error) {
	var state autoscaling.State
	var err error
	if program == nil {
		err = remove(ctx, client)
	} else {
		state, err = ensure(ctx, client, program)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		state.Refusal = autoscaling.Shorten(err.Error(), longestProblem)
		return state, nil
	}
	return state, err
}

// ensure applies the objects if the Deployment is not the wanted one, and returns the state of the Deployment. With a
// new kubeconfig, the autoscaler starts again, but not with the former one.
func ensure(ctx context.Context, client kubernetes.Interface, program *autoscaling.Program) (autoscaling.State, error) {
	objects, digest, err := program.Objects()
	if err != nil {
		return autoscaling.State{}, err
	}
	found, err := clients.Optional(client.AppsV1().Deployments(autoscaling.Namespace).Get(ctx,
		autoscaling.ProgramName, metav1.GetOptions{}))
	if err != nil {
		return autoscaling.State{}, fmt.Errorf("read the autoscaler: %w", err)
	}
	if found != nil && found.Annotations[autoscaling.DigestAnnotation] == "" {
		return autoscaling.State{Foreign: true}, nil
	}
	if found == nil || found.Annotations[autoscaling.DigestAnnotation] != digest {
		copied, err := clients.Optional(client.CoreV1().Secrets(autoscaling.CopyNamespace).Get(ctx,
			autoscaling.CopyName, metav1.GetOptions{}))
		if err != nil {
			return autoscaling.State{}, fmt.Errorf("read the kubeconfig of the autoscaler: %w", err)
		}
		if autoscaling.CopyIsBehind(copied, program.Kubeconfig) {
			return autoscaling.State{CopyIsBehind: true}, nil
		}
		for _, object := range objects { // the Deployment with the digest comes last
			if err := proxy.Apply(ctx, client.CoreV1().RESTClient(), object); err != nil {
				return autoscaling.State{}, err
			}
		}
		return autoscaling.State{}, nil
	}
	return stateOf(found), nil
}

func stateOf(deployment *appsv1.Deployment) autoscaling.State {
	current := deployment.Status.ObservedGeneration >= deployment.Generation
	return autoscaling.State{Current: current, Available: deployment.Status.AvailableReplicas}
}

// remove deletes what Drover has applied.
func remove(ctx context.Context, client kubernetes.Interface) error {
	found, err := clients.Optional(client.AppsV1().Deployments(autoscaling.Namespace).Get(ctx,
		autoscaling.ProgramName, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("read the autoscaler: %w", err)
	}
	if found == nil || found.Annotations[autoscaling.DigestAnnotation] == "" {
		return nil
	}
	const name = autoscaling.ProgramName
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	var errs []error
	for _, gone := range []func(context.Context, string, metav1.DeleteOptions) error{
		client.RbacV1().ClusterRoleBindings().Delete, client.RbacV1().ClusterRoles().Delete,
		client.RbacV1().RoleBindings(autoscaling.Namespace).Delete, client.RbacV1().Roles(autoscaling.Namespace).Delete,
		client.CoreV1().ServiceAccounts(autoscaling.Namespace).Delete,
	} {
		if err := gone(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete the autoscaler: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// The Deployment shows that there is something to remove, so it is the last.
	if err := client.AppsV1().Deployments(autoscaling.Namespace).Delete(ctx, name, options); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the autoscaler: %w", err)
	}
	return nil
}

func (h *handler) sight(name types.NamespacedName) sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[name]
}

// see remembers what a visit found, and requeues the Cluster if that is news.
func (h *handler) see(name types.NamespacedName, found sight) {
	h.mu.Lock()
	before := h.seen[name]
	h.seen[name] = found
	h.mu.Unlock()
	if before != found {
		h.Clusters.EnqueueAfter(name.Namespace, name.Name, 0)
	}
}

func (h *handler) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, name)
}
