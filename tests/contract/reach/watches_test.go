package reach

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/drover-io/drover/tests/contract/plane"
)

// watchers are watches of ConfigMaps in a cluster, each with its own connection. They resume like client-go when they
// end.
type watchers struct {
	*world
	cluster kubernetes.Interface
	each    []*watcher
}

// watcher is one of the watches.
type watcher struct {
	*watchtools.RetryWatcher
	cluster kubernetes.Interface
	begun   atomic.Int64
}

// WatchWithContext starts the watch.
func (w *watcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.begun.Add(1)
	return w.cluster.CoreV1().ConfigMaps(metav1.NamespaceDefault).Watch(ctx, options)
}

// watch starts watches with a kubeconfig.
func (w *world) watch(kubeconfig string, many int) *watchers {
	w.Helper()
	all := &watchers{world: w}
	for range many {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		w.must(err)
		// A separate dialer means a separate connection.
		config.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
		one := &watcher{}
		one.cluster, err = kubernetes.NewForConfig(config)
		w.must(err)
		all.cluster = one.cluster
		list, err := one.cluster.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		one.RetryWatcher, err = watchtools.NewRetryWatcherWithContext(w.Context(), list.ResourceVersion, one)
		w.must(err)
		w.Cleanup(one.Stop)
		all.each = append(all.each, one)
	}
	all.see("before")
	return all
}

// see writes an object, with retries, and fails the test unless all watches see it.
func (w *watchers) see(name string) {
	w.Helper()
	plane.Until(w, 30*time.Second, func() string {
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		_, err := w.cluster.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-",
				Labels: map[string]string{"seen": name}}}, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	late := time.After(time.Minute)
	for i, one := range w.each {
		for seen := false; !seen; {
			select {
			case event, open := <-one.ResultChan():
				if !open {
					w.Fatalf("watch %d has ended for good", i)
				}
				if event.Type == watch.Error {
					w.Fatalf("watch %d fails: %v", i, event.Object)
				}
				object, ok := event.Object.(*corev1.ConfigMap)
				seen = ok && object.Labels["seen"] == name
			case <-late:
				w.Fatalf("watch %d does not report the write: %s", i, name)
			}
		}
	}
}

// resumed fails the test unless some watches have resumed.
func (w *watchers) resumed() {
	w.Helper()
	var times []string
	some := false
	for _, one := range w.each {
		times = append(times, strconv.FormatInt(one.begun.Load(), 10))
		some = some || one.begun.Load() > 1
	}
	w.Logf("the number of starts of each watch: %v", times)
	if !some {
		w.Error("no watch ended: none went through the killed replica")
	}
}
