package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

var (
	clusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}
	machines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
)

// Progress writes the progress of a cluster. On a terminal it overwrites one line with the elapsed time. Elsewhere it
// writes a line for each change.
type Progress struct {
	Out      io.Writer
	Terminal bool

	start time.Time
	last  string
}

func (p *Progress) show(state string) {
	elapsed := time.Since(p.start).Round(time.Second)
	switch {
	case p.Terminal:
		if state != p.last && p.last != "" {
			fmt.Fprintf(p.Out, "\r\033[K%s\n", p.last)
		}
		fmt.Fprintf(p.Out, "\r\033[K%4s  %s", elapsed, state)
	case state != p.last:
		fmt.Fprintf(p.Out, "%4s  %s\n", elapsed, state)
	}
	p.last = state
}

func (p *Progress) done() {
	if p.Terminal {
		fmt.Fprintln(p.Out)
	}
}

func machinesOf(ctx context.Context, objects dynamic.Interface, cluster string) ([]unstructured.Unstructured, error) {
	list, err := objects.Resource(machines).Namespace(clusterNamespace).List(ctx,
		metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=" + cluster})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	return list.Items, nil
}

func condition(object *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, message
}

// errStillThere means that an object is not deleted yet.
var errStillThere = errors.New("still exists")

// DeleteCluster deletes a cluster and returns when it is gone.
func (r *Rig) DeleteCluster(ctx context.Context, name string) error {
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	resource := objects.Resource(clusters).Namespace(clusterNamespace)
	if err := resource.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete cluster %s: %w", name, err)
	}
	if err := poll(ctx, func() (bool, error) {
		_, err := resource.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		return fmt.Errorf("delete cluster %s: %w: %w\n%s", name, errStillThere, err,
			r.Explain(context.WithoutCancel(ctx), name))
	}
	return nil
}

// poll calls done until it returns true or an error.
func poll(ctx context.Context, done func() (bool, error)) error {
	condition := func(context.Context) (bool, error) { return done() }
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, condition)
}
