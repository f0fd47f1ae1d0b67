package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

var (
	clusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}
	machines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
)

// Progress writes what happens to a cluster: on a terminal one line that is written over, with the elapsed time; elsewhere a line for each
// change.
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

// AwaitReady follows a cluster until its condition Ready is True and status.ready is set. When ctx ends before, the error says which
// machine is at which step, with the end of the last output there is.
func (r *Rig) AwaitReady(ctx context.Context, name string, progress *Progress) error {
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	progress.start = time.Now()
	defer progress.done()
	err = poll(ctx, func() (bool, error) {
		state, ready, err := clusterState(ctx, objects, name)
		if err != nil {
			return false, nil //nolint:nilerr // the API may be starting again; the deadline ends this
		}
		progress.show(state)
		return ready, nil
	})
	if err != nil {
		return fmt.Errorf("cluster %s did not become ready: %w\n%s", name, err, r.Explain(context.WithoutCancel(ctx), name))
	}
	return nil
}

// clusterState sums a cluster and its machines up in one line.
func clusterState(ctx context.Context, objects dynamic.Interface, name string) (state string, ready bool, err error) {
	cluster, err := objects.Resource(clusters).Namespace(clusterNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", false, err
	}
	status, message := condition(cluster, "Ready")
	usable, _, _ := unstructured.NestedBool(cluster.Object, "status", "ready")
	if status == "True" && usable {
		return name + ": ready", true, nil
	}
	parts := []string{name + ": " + cmp.Or(message, "waiting")}
	list, err := machinesOf(ctx, objects, name)
	if err != nil {
		return "", false, err
	}
	for _, machine := range list {
		phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
		parts = append(parts, machine.GetName()+" "+strings.ToLower(cmp.Or(phase, "pending")))
	}
	return strings.Join(parts, " | "), false, nil
}

func machinesOf(ctx context.Context, objects dynamic.Interface, cluster string) ([]unstructured.Unstructured, error) {
	list, err := objects.Resource(machines).Namespace(clusterNamespace).List(ctx, metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=" + cluster})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
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

// Explain tells what each machine of a cluster is at, and the end of the last output there is: the provisioning Job's, or the
// machine's console.
func (r *Rig) Explain(ctx context.Context, cluster string) string {
	var out strings.Builder
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return err.Error()
	}
	if object, err := objects.Resource(clusters).Namespace(clusterNamespace).Get(ctx, cluster, metav1.GetOptions{}); err == nil {
		explainConditions(&out, "cluster "+cluster, object)
	}
	list, err := machinesOf(ctx, objects, cluster)
	if err != nil {
		return out.String() + err.Error()
	}
	for i := range list {
		explainConditions(&out, "machine "+list[i].GetName(), &list[i])
	}
	r.explainPods(ctx, &out)
	return out.String()
}

func explainConditions(out *strings.Builder, what string, object *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["status"] != "True" && c["message"] != nil && c["message"] != "" {
			fmt.Fprintf(out, "%s: %v is %v: %v\n", what, c["type"], c["status"], c["message"])
		}
	}
}

// explainPods adds the end of the output of pods that failed or still run.
func (r *Rig) explainPods(ctx context.Context, out *strings.Builder) {
	clients, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		return
	}
	pods, err := clients.CoreV1().Pods(clusterNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	lines := int64(15)
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		log, err := clients.CoreV1().Pods(clusterNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		if err != nil && !apierrors.IsNotFound(err) {
			log = []byte(err.Error())
		}
		fmt.Fprintf(out, "pod %s (%s):\n%s\n", pod.Name, cmp.Or(string(pod.Status.Phase), "unknown"), strings.TrimSpace(string(log)))
	}
}

// errStillThere means that an object that should go has not gone.
var errStillThere = errors.New("still there")

// DeleteCluster deletes a cluster and returns when it is gone.
func (r *Rig) DeleteCluster(ctx context.Context, name string) error {
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	resource := objects.Resource(clusters).Namespace(clusterNamespace)
	if err := resource.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete cluster %s: %w", name, err)
	}
	if err := poll(ctx, func() (bool, error) {
		_, err := resource.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		return fmt.Errorf("delete cluster %s: %w: %w\n%s", name, errStillThere, err, r.Explain(context.WithoutCancel(ctx), name))
	}
	return nil
}

// poll asks until the answer is yes or an error.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
