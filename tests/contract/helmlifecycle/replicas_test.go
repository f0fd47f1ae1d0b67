package helmlifecycle

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
)

// pods returns the program's pods.
func (in *installation) pods() []corev1.Pod {
	in.t.Helper()
	pods, err := in.list(in.t.Context())
	check(in.t, err)
	return pods
}

func (in *installation) list(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := in.kube.CoreV1().Pods(charts.SystemNamespace).List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// isReady reports whether a Service routes to a pod.
func isReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// metrics returns the metrics of a pod from its metrics port.
func (in *installation) metrics(pod corev1.Pod) ([]byte, error) {
	for _, port := range pod.Spec.Containers[0].Ports {
		if port.Name != "health" {
			continue
		}
		address := "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))) + "/metrics"
		request, err := http.NewRequestWithContext(in.t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}
	return nil, fmt.Errorf("pod %s has no port for metrics", pod.Name)
}

var leads = regexp.MustCompile(`(?m)^drover_leader 1$`)

// awaitReplicas waits until the number of pods is right, all are ready and one leads. It returns the leader.
func (in *installation) awaitReplicas(want int) (leader corev1.Pod) {
	in.t.Helper()
	plane.Until(in.t, time.Minute, func() string {
		pods := in.pods()
		ready, leaders := 0, 0
		for _, pod := range pods {
			if !isReady(pod) {
				continue
			}
			ready++
			text, err := in.metrics(pod)
			if err != nil {
				return err.Error()
			}
			if leads.Match(text) {
				leaders, leader = leaders+1, pod
			}
		}
		if len(pods) != want || ready != want || leaders != 1 {
			return fmt.Sprintf("%d pods exist, %d are ready, %d lead", len(pods), ready, leaders)
		}
		return ""
	})
	return leader
}

// evictLeader evicts the leader, as a drain does. It waits until another pod leads and two pods exist again. The
// eviction must not hit the other existing pod.
func (in *installation) evictLeader() {
	in.t.Helper()
	old := in.awaitReplicas(2)
	both := in.pods()
	other := both[slices.IndexFunc(both, func(pod corev1.Pod) bool { return pod.Name != old.Name })]
	plane.Until(in.t, 30*time.Second, func() string { return text(in.evict(old)) })
	if err := in.evict(other); !apierrors.IsTooManyRequests(err) {
		in.t.Errorf("the second replica may be evicted while the first is missing: %v", err)
	}
	begin := time.Now()
	plane.Until(in.t, time.Minute, func() string {
		for _, pod := range in.pods() {
			if said, err := in.metrics(pod); pod.Name != old.Name && err == nil && leads.Match(said) {
				in.t.Logf("pod %s leads after %s", pod.Name, time.Since(begin).Round(10*time.Millisecond))
				return ""
			}
		}
		return "no other replica leads"
	})
	in.awaitReplicas(2)
}

func (in *installation) evict(pod corev1.Pod) error {
	return in.kube.PolicyV1().Evictions(pod.Namespace).Evict(in.t.Context(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
}

// expectReplicas returns a check that fails if fewer pods are ready than the chart promises during a replacement, or if
// more than one additional pod exists.
func (in *installation) expectReplicas(want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := in.list(ctx)
		if err != nil {
			return err
		}
		ready, running := 0, 0
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil {
				running++
			}
			if isReady(pod) {
				ready++
			}
		}
		if ready < want || running > want+1 {
			return fmt.Errorf("%d of %d pods are ready, want %d, and one more pod at most", ready, running, want)
		}
		return nil
	}
}
