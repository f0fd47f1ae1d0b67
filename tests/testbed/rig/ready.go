package rig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// answerTimeout is the limit for one answer of a cluster's API.
const answerTimeout = 5 * time.Second

// AwaitReady waits until a cluster is usable: its condition Ready is True, status.ready is set, its API answers through
// its kubeconfig, and its nodes are ready and alive. The stored status is not enough, because after a restart it
// describes the time before. If ctx ends first, the error names the step of each machine, with the end of its last
// output.
func (r *Rig) AwaitReady(ctx context.Context, name string, progress *Progress) error {
	f, err := r.follow(name)
	if err != nil {
		return err
	}
	progress.start = f.since
	err = poll(ctx, func() (bool, error) {
		f.noteFailures(ctx)
		state, ready, err := f.look(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // the API may be starting again; the deadline ends this
		}
		progress.show(name + ": " + state)
		return ready, nil
	})
	progress.done()
	if errors.Is(err, context.Canceled) {
		return err // the caller has canceled
	}
	if err != nil {
		return fmt.Errorf("cluster %s did not become ready: %w\n%s", name, err,
			r.Explain(context.WithoutCancel(ctx), name)+f.failures())
	}
	return nil
}

// follower checks one cluster repeatedly.
type follower struct {
	rig     *Rig
	name    string
	since   time.Time
	objects dynamic.Interface
	clients kubernetes.Interface

	// nodes is a client of the cluster, built from kubeconfig.
	nodes      kubernetes.Interface
	kubeconfig []byte

	// failed are the failed pods with the end of their output. A machine that could not be created is replaced, and its
	// pods are deleted with it.
	failed []failure
}

// failure is a pod that failed.
type failure struct {
	pod    types.UID
	output string
}

// noteFailures stores the output of pods that have failed since the last check.
func (f *follower) noteFailures(ctx context.Context) {
	pods, err := f.clients.CoreV1().Pods(clusterNamespace).List(ctx,
		metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodFailed)})
	if err != nil {
		return // the next check sees them
	}
	for _, pod := range pods.Items {
		if slices.ContainsFunc(f.failed, func(known failure) bool { return known.pod == pod.UID }) {
			continue
		}
		f.failed = append(f.failed, failure{pod: pod.UID, output: podOutput(ctx, f.clients, &pod)})
	}
}

// failures describes the pod that failed last. The pod may have been deleted.
func (f *follower) failures() string {
	if len(f.failed) == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods failed; the output of the last one:\n%s", len(f.failed),
		f.failed[len(f.failed)-1].output)
}

func (r *Rig) follow(name string) (*follower, error) {
	f := &follower{rig: r, name: name, since: time.Now()}
	var err error
	if f.objects, err = dynamic.NewForConfig(r.Config); err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	if f.clients, err = kubernetes.NewForConfig(r.Config); err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return f, nil
}

// look describes a cluster and its machines in one line.
func (f *follower) look(ctx context.Context) (state string, ready bool, err error) {
	cluster, err := f.objects.Resource(clusters).Namespace(clusterNamespace).Get(ctx, f.name, metav1.GetOptions{})
	if err != nil {
		return "", false, err
	}
	list, err := machinesOf(ctx, f.objects, f.name)
	if err != nil {
		return "", false, err
	}
	if status, message := condition(cluster, "Ready"); status != "True" || !usable(cluster) {
		parts := []string{cmp.Or(message, "waiting")}
		for _, machine := range list {
			phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
			parts = append(parts, machine.GetName()+" "+strings.ToLower(cmp.Or(phase, "pending")))
		}
		return strings.Join(parts, " | "), false, nil
	}
	if missing := f.missing(ctx, len(list)); missing != "" {
		return missing, false, nil
	}
	return "ready", true, nil
}

func usable(cluster *unstructured.Unstructured) bool {
	ready, _, _ := unstructured.NestedBool(cluster.Object, "status", "ready")
	return ready
}

// missing asks the cluster itself and describes why it is not usable yet.
func (f *follower) missing(ctx context.Context, machines int) string {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := f.connect(ctx); err != nil {
		return "waiting for its kubeconfig"
	}
	nodes, err := f.nodes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "waiting for its API to answer"
	}
	leases, err := f.nodes.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "waiting for its API to answer"
	}
	return missingNodes(nodes.Items, leases.Items, machines, f.since)
}

// connect builds a new client of the cluster when its kubeconfig has changed.
func (f *follower) connect(ctx context.Context) error {
	secret, err := f.clients.CoreV1().Secrets(clusterNamespace).Get(ctx, f.name+"-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if f.nodes != nil && bytes.Equal(secret.Data["value"], f.kubeconfig) {
		return nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return err
	}
	config.Dial, config.Timeout = f.rig.Dial, answerTimeout
	if f.nodes, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	f.kubeconfig = secret.Data["value"]
	return nil
}

// missingNodes describes how many nodes are missing. It returns "" when each machine has a ready node that is alive. A
// node is alive if it has renewed its lease since the given time. Its conditions may be older than a restart.
func missingNodes(nodes []corev1.Node, leases []coordinationv1.Lease, machines int, since time.Time) string {
	alive := map[string]bool{}
	for _, lease := range leases {
		alive[lease.Name] = lease.Spec.RenewTime != nil && !lease.Spec.RenewTime.Time.Before(since)
	}
	ready := 0
	for _, node := range nodes {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && alive[node.Name] {
				ready++
			}
		}
	}
	if want := max(machines, 1); ready < want {
		return fmt.Sprintf("waiting for its nodes, %d of %d are ready", ready, want)
	}
	return ""
}
