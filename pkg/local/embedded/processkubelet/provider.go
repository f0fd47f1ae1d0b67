package processkubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// virtual-kubelet's pod controller calls the methods in this file. None of them waits for a pod. Each pod has a worker
// that reports changes.

// podFile is the original pod, in the pod's directory.
const podFile = "pod.json"

// endOfPodsGrace is the grace period of pods that end with the kubelet.
const endOfPodsGrace = 5 * time.Second

func (k *kubelet) podsDir() string { return filepath.Join(k.config.Dir, "pods") }

// NotifyPods stores the function that reports a changed pod, and then resumes the pods of an earlier run. This order
// ensures that no report is lost.
func (k *kubelet) NotifyPods(ctx context.Context, notify func(*corev1.Pod)) {
	k.mu.Lock()
	k.notify = notify
	k.mu.Unlock()
	if err := k.adopt(ctx); err != nil {
		klog.ErrorS(err, "Cannot adopt the pods of an earlier run")
	}
	go k.repeat(ctx)
}

// adopt starts a worker for every pod on disk.
func (k *kubelet) adopt(ctx context.Context) error {
	entries, err := os.ReadDir(k.podsDir())
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, entry := range entries {
		var pod corev1.Pod
		if err := readJSON(filepath.Join(k.podsDir(), entry.Name(), podFile), &pod); err != nil {
			klog.ErrorS(err, "Cannot read a pod on disk", "directory", entry.Name())
			continue
		}
		k.startWorker(ctx, &pod)
	}
	return nil
}

// repeat reports all pods periodically, in case a report was lost while the API server was down. The pod controller
// ignores reports without news.
func (k *kubelet) repeat(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, w := range k.list() {
				w.publish()
			}
		}
	}
}

func (k *kubelet) tell(pod *corev1.Pod) {
	k.mu.Lock()
	notify := k.notify
	k.mu.Unlock()
	if notify != nil {
		notify(pod)
	}
}

// CreatePod accepts a pod. It fails only when it cannot store the pod on disk. The worker reports all other errors in
// the pod's status and retries where that helps.
func (k *kubelet) CreatePod(_ context.Context, pod *corev1.Pod) error {
	if old := k.find(pod.Namespace, pod.Name); old != nil {
		if old.pod.UID == pod.UID {
			return nil
		}
		k.finish(old, 0)
	}
	dir := filepath.Join(k.podsDir(), string(pod.UID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of pod: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, podFile), pod); err != nil {
		return err
	}
	k.startWorker(k.life, pod) //nolint:contextcheck // the worker outlives this call
	return nil
}

func (k *kubelet) startWorker(ctx context.Context, pod *corev1.Pod) {
	w := newWorker(k, pod.DeepCopy())
	k.mu.Lock()
	k.workers[pod.UID] = w
	k.mu.Unlock()
	go w.run(ctx)
}

// UpdatePod applies changed labels and annotations.
func (k *kubelet) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	w := k.find(pod.Namespace, pod.Name)
	if w == nil || w.pod.UID != pod.UID {
		return k.CreatePod(ctx, pod)
	}
	w.update(pod)
	return nil
}

// DeletePod asks a pod to end and returns at once. When the pod has ended, the kubelet writes its last status and
// removes the Pod. The pod controller alone would wait for the whole grace period.
func (k *kubelet) DeletePod(_ context.Context, pod *corev1.Pod) error {
	k.mu.Lock()
	w := k.workers[pod.UID]
	k.mu.Unlock()
	if w == nil {
		return errdefs.NotFound("the pod does not run on this node")
	}
	var grace time.Duration
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	k.finish(w, grace)
	return nil
}

// finish ends a pod and removes it from the list, in the background.
func (k *kubelet) finish(w *worker, grace time.Duration) {
	w.end(grace)
	w.finishOnce.Do(func() {
		go func() {
			select {
			case <-w.done:
			case <-k.life.Done():
				return
			}
			k.removeFromAPI(k.life, w.snapshot())
			if err := os.RemoveAll(w.dir); err != nil {
				klog.ErrorS(err, "Cannot remove the files of a pod", "pod", klog.KObj(w.pod))
			}
			k.mu.Lock()
			delete(k.workers, w.pod.UID)
			k.mu.Unlock()
		}()
	})
}

// removeFromAPI writes the last status of a pod. It then removes the pod, if that is marked for deletion and is still
// the same pod.
func (k *kubelet) removeFromAPI(ctx context.Context, last *corev1.Pod) {
	pods := k.client.CoreV1().Pods(last.Namespace)
	present, err := pods.Get(ctx, last.Name, metav1.GetOptions{})
	if err != nil || present.UID != last.UID || present.DeletionTimestamp == nil {
		return // the pod controller retries what is left
	}
	if present.Status.Phase != corev1.PodSucceeded && present.Status.Phase != corev1.PodFailed {
		present.Status = last.Status
		if _, err := pods.UpdateStatus(ctx, present, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			klog.ErrorS(err, "Cannot write the last status of a pod", "pod", klog.KObj(last))
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(last.UID))
	if err := pods.Delete(ctx, last.Name, *options); err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "Cannot remove an ended pod", "pod", klog.KObj(last))
	}
}

// GetPod returns the pod with its current status.
func (k *kubelet) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	if w := k.find(namespace, name); w != nil {
		return w.snapshot(), nil
	}
	return nil, errdefs.NotFound("the pod does not run on this node")
}

// GetPodStatus returns the current status of a pod.
func (k *kubelet) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := k.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods returns all pods.
func (k *kubelet) GetPods(context.Context) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, w := range k.list() {
		out = append(out, w.snapshot())
	}
	return out, nil
}

func (k *kubelet) list() []*worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*worker, 0, len(k.workers))
	for _, w := range k.workers {
		out = append(out, w)
	}
	return out
}

func (k *kubelet) find(namespace, name string) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if w.pod.Namespace == namespace && w.pod.Name == name {
			return w
		}
	}
	return nil
}

// endAll ends all pods and waits for them.
func (k *kubelet) endAll() {
	workers := k.list()
	for _, w := range workers {
		w.end(endOfPodsGrace)
	}
	for _, w := range workers {
		<-w.done
	}
}
