package machinedrain

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

const (
	// defaultTimeout limits an eviction whose options set no timeout.
	defaultTimeout = 10 * time.Minute
	// callTimeout limits reading and cordoning a node.
	callTimeout = 30 * time.Second
	// maxError is the length of an error in the annotation, in bytes.
	maxError = 500
)

// act starts a task or writes the decided annotations. After a conflict, the event of the newer object retries.
func (h *handler) act(secret *corev1.Secret, machine *clusterv1.Machine, d decision, failed error) error {
	key := keyOf(secret)
	wake := func() { h.Secrets.EnqueueAfter(secret.Namespace, secret.Name, 0) }
	if d.start != taskNone {
		run := func(ctx context.Context) error { return h.run(ctx, machine, d.start, d.options) }
		if again := h.jobs.start(key, d.start, d.request, run, wake); again > 0 {
			h.Secrets.EnqueueAfter(secret.Namespace, secret.Name, again)
		}
	}
	problem := d.problem
	if failed != nil {
		problem = outcome.Stable(failed.Error())
		problem = problem[:min(len(problem), maxError)]
	}
	update := secret.DeepCopy()
	edit(update, d, problem)
	if same(secret.Annotations, update.Annotations) {
		return nil
	}
	_, err := h.Secrets.Update(update)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("write the annotations of a drain: %w", err)
	case len(d.remove) > 0:
		h.jobs.forget(key)
	}
	return nil
}

// edit changes only the decided annotations.
func edit(secret *corev1.Secret, d decision, problem string) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	if d.set != "" {
		secret.Annotations[d.set] = d.request
	}
	switch {
	case problem != "":
		secret.Annotations[rkev1.DrainErrorAnnotation] = problem
	case d.set != "": // the previous step succeeded
		delete(secret.Annotations, rkev1.DrainErrorAnnotation)
	}
	for _, key := range d.remove {
		delete(secret.Annotations, key)
	}
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}

// run does a task at the node of a machine. Without a node there is nothing to do.
func (h *handler) run(ctx context.Context, machine *clusterv1.Machine, what task, options rkev1.DrainOptions) error {
	name := machine.Status.NodeRef.Name
	if name == "" {
		return nil
	}
	client, err := h.Downstream.Client(ctx, types.NamespacedName{Namespace: machine.Namespace,
		Name: machine.Spec.ClusterName})
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	if what == taskEvict {
		return evict(ctx, client, name, options)
	}
	return cordon(ctx, client, name, what == taskCordon)
}

// cordon cordons or uncordons a node.
func cordon(ctx context.Context, client kubernetes.Interface, name string, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if err := drain.RunCordonOrUncordon(&drain.Helper{Ctx: ctx, Client: client, Out: io.Discard, ErrOut: io.Discard},
		node, on); err != nil {
		return fmt.Errorf("cordon or uncordon node %s: %w", name, err)
	}
	return nil
}

// timeoutOf is how long an eviction may take.
func timeoutOf(options rkev1.DrainOptions) time.Duration {
	if options.Timeout <= 0 {
		return defaultTimeout
	}
	return time.Duration(options.Timeout) * time.Second
}

// evict evicts the pods of a node and waits until they are gone.
func evict(ctx context.Context, client kubernetes.Interface, name string, options rkev1.DrainOptions) error {
	timeout := timeoutOf(options)
	ctx, cancel := context.WithTimeout(ctx, timeout+callTimeout)
	defer cancel()
	err := drain.RunNodeDrain(&drain.Helper{
		Ctx: ctx, Client: client, Out: io.Discard, ErrOut: io.Discard,
		Force: options.Force, GracePeriodSeconds: options.GracePeriod, DeleteEmptyDirData: options.DeleteEmptyDirData,
		DisableEviction: options.DisableEviction, Timeout: timeout,
		IgnoreAllDaemonSets:             options.IgnoreDaemonSets == nil || *options.IgnoreDaemonSets,
		SkipWaitForDeleteTimeoutSeconds: options.SkipWaitForDeleteTimeoutSeconds,
	}, name)
	if err != nil {
		return fmt.Errorf("drain node %s: %w", name, err)
	}
	return nil
}
