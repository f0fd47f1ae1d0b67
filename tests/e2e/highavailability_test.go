package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var clustersResource = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}

// TestHighAvailability upgrades a cluster of three servers and two workers in use. A request to the API may fail at one
// of the three servers only if another server answers it. The pods of an application with a disruption budget move one
// by one.
func TestHighAvailability(t *testing.T) {
	const before, after = "v1.36.2+rke2r1", "v1.36.3+rke2r1"
	w := newWorld(t, "ha", before, after)
	must(t, w.Apply(t.Context(), manifest("ha", before, pool{"server", 3, "ec"}, pool{"worker", 2, "w"})))
	w.awaitReady("ha")
	w.expectVersions("ha", before, 5)
	client := w.downstream("ha")
	w.runApplication(client)

	reader := w.readThroughAll("ha")
	budget := w.watchBudget(client)
	w.change("ha", fmt.Sprintf(`{"spec": {"kubernetesVersion": %q, "rkeConfig": {"upgradeStrategy": {
		"workerConcurrency": "1", "workerDrainOptions": {"enabled": true, "ignoreDaemonSets": true, "deleteEmptyDirData": true, "timeout": 120}}}}}`, after))
	w.eventually("the start of an upgrade", func() (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // the server that this client knows restarts
		}
		for i := range nodes.Items {
			if nodes.Items[i].Status.NodeInfo.KubeletVersion == after {
				return true, nil
			}
		}
		return false, nil
	})
	w.awaitReady("ha")
	w.expectVersions("ha", after, 5)
	reader.end()
	budget.end()
	t.Logf("%d requests during the upgrade, %d of them repeated at another server", reader.requests.Load(),
		reader.repeated.Load())
	if requests := reader.requests.Load(); requests < 100 {
		t.Errorf("only %d requests: the reader did not read", requests)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range nodes.Items {
		if nodes.Items[i].Spec.Unschedulable {
			t.Errorf("node %s is still cordoned", nodes.Items[i].Name)
		}
	}
}

// change patches a Cluster.
func (w *world) change(cluster, patch string) {
	w.t.Helper()
	must(w.t, w.tryChange(cluster, patch))
}

// tryChange patches a Cluster, and returns why that is refused.
func (w *world) tryChange(cluster, patch string) error {
	_, err := w.objects.Resource(clustersResource).Namespace(namespace).Patch(w.t.Context(), cluster,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (w *world) expectVersions(cluster, version string, nodes int) {
	w.t.Helper()
	list, err := w.downstream(cluster).CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	if len(list.Items) != nodes {
		w.t.Errorf("%d nodes, want %d", len(list.Items), nodes)
	}
	for i := range list.Items {
		if got := list.Items[i].Status.NodeInfo.KubeletVersion; got != version {
			w.t.Errorf("node %s runs %s, want %s", list.Items[i].Name, got, version)
		}
	}
}

// runApplication runs two pods with a disruption budget of one available pod, and waits until both are available.
func (w *world) runApplication(client kubernetes.Interface) {
	w.t.Helper()
	app := map[string]string{"app": "used"}
	_, err := client.AppsV1().Deployments("default").Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "used"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{
					Containers:                    []corev1.Container{{Name: "pause", Image: "drover.test/pause"}},
					TerminationGracePeriodSeconds: new(int64(1)),
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: app},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	must(w.t, err)
	_, err = client.PolicyV1().PodDisruptionBudgets("default").Create(w.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "used"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: app}},
	}, metav1.CreateOptions{})
	must(w.t, err)
	w.eventually("a running application", func() (bool, error) {
		deployment, err := client.AppsV1().Deployments("default").Get(w.t.Context(), "used", metav1.GetOptions{})
		return err == nil && deployment.Status.AvailableReplicas == 2, err
	})
}

// background is work that continues while a test acts.
type background struct {
	requests, repeated atomic.Int64
	cancel             context.CancelFunc
	done               sync.WaitGroup
}

func (b *background) end() {
	b.cancel()
	b.done.Wait()
}

func (w *world) inBackground(run func(context.Context, *background)) *background {
	ctx, cancel := context.WithCancel(w.t.Context())
	b := &background{cancel: cancel}
	b.done.Go(func() { run(ctx, b) })
	w.t.Cleanup(b.end)
	return b
}

// readThroughAll reads through each server of a cluster in turn. If a server does not answer, it repeats the request at
// the next one.
func (w *world) readThroughAll(cluster string) *background {
	w.t.Helper()
	base := w.administrator()
	nodes, err := w.downstream(cluster).CoreV1().Nodes().List(w.t.Context(),
		metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane=true"})
	must(w.t, err)
	var servers []kubernetes.Interface
	for i := range nodes.Items {
		for _, address := range nodes.Items[i].Status.Addresses {
			if address.Type != corev1.NodeInternalIP {
				continue
			}
			config := rest.CopyConfig(base)
			config.Host, config.Timeout = "https://"+address.Address+":6443", 3*time.Second
			client, err := kubernetes.NewForConfig(config)
			must(w.t, err)
			servers = append(servers, client)
		}
	}
	if len(servers) != 3 {
		w.t.Fatalf("%d servers, want 3", len(servers))
	}
	read := func(ctx context.Context, server int) error {
		_, err := servers[server%len(servers)].CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return err
	}
	return w.inBackground(func(ctx context.Context, b *background) {
		for i := 0; ctx.Err() == nil; i++ {
			b.requests.Add(1)
			first := read(ctx, i)
			if first == nil || ctx.Err() != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			b.repeated.Add(1)
			if second := read(ctx, i+1); second != nil && ctx.Err() == nil {
				w.t.Errorf("request %d failed at two servers: %v; %v", i, first, second)
			}
		}
	})
}

// administrator returns the configuration of a user on one of the cluster's servers.
func (w *world) administrator() *rest.Config {
	w.t.Helper()
	const path = "/etc/rancher/rke2/rke2.yaml"
	for _, machine := range w.Lab.List() {
		if there, err := w.Lab.FileExists(machine.Name, path); err != nil || !there {
			continue
		}
		content, err := w.Lab.Exec(w.t.Context(), machine.Name, "cat "+path)
		must(w.t, err)
		config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content))
		must(w.t, err)
		config.Dial = w.Dial
		return config
	}
	w.t.Fatalf("no machine has %s", path)
	return nil
}

// watchBudget fails the test if the application has no available pod, or if both its pods are being evicted.
func (w *world) watchBudget(client kubernetes.Interface) *background {
	return w.inBackground(func(ctx context.Context, _ *background) {
		for ctx.Err() == nil {
			pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=used"})
			if err == nil {
				going, there := 0, 0
				for i := range pods.Items {
					if pods.Items[i].DeletionTimestamp != nil {
						going++
					} else if pods.Items[i].Status.Phase == corev1.PodRunning {
						there++
					}
				}
				if there == 0 {
					w.t.Errorf("the application has no pod; %d are being evicted", going)
				}
			}
			pause(ctx, 200*time.Millisecond)
		}
	})
}

// pause waits for a duration or until ctx ends.
func pause(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}
