package processkubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	// retryPause is the pause before a pod checks again for a missing object.
	retryPause = time.Second
	// firstRestartPause and lastRestartPause bound the pause before a container that ended starts again.
	firstRestartPause = 2 * time.Second
	lastRestartPause  = 5 * time.Minute
)

// worker runs one pod, in one goroutine plus one per running container.
type worker struct {
	kubelet *kubelet
	dir     string

	// pod is the pod as it was when it arrived on this node. It never changes.
	pod *corev1.Pod

	mu sync.Mutex
	// current is the pod with its current labels and status.
	current *corev1.Pod
	state   podState
	// network is the pod's own network, if it has one.
	network Network
	// publishing prevents an older status from following a newer one.
	publishing sync.Mutex

	stop     chan struct{} // closed when the pod has to end
	kill     chan struct{} // closed when the pod has to end at once
	done     chan struct{} // closed when no process of the pod runs and its status is final
	stopOnce sync.Once
	killOnce sync.Once
	// finishOnce: the pod is removed from the API once.
	finishOnce sync.Once
}

func newWorker(k *kubelet, pod *corev1.Pod) *worker {
	started := metav1.NewTime(time.Now().Truncate(time.Second))
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	w := &worker{
		kubelet: k, dir: filepath.Join(k.podsDir(), string(pod.UID)), pod: pod, current: pod,
		state: podState{started: started, containers: map[string]containerState{}},
		stop:  make(chan struct{}), kill: make(chan struct{}), done: make(chan struct{}),
	}
	reason := reasonContainerCreating
	if len(pod.Spec.InitContainers) > 0 {
		reason = reasonPodInitializing
	}
	for _, container := range append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		w.state.containers[container.Name] = containerState{waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	w.keepNetwork()
	return w
}

// run runs the pod to its end. If ctx ends first, the kubelet is stopping, and the pod stays as it is on disk.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	err := w.runPod(ctx)
	if ctx.Err() != nil {
		return
	}
	if failed, ok := errors.AsType[podFailure](err); ok {
		w.fail(failed.reason, failed.message)
	} else if err != nil {
		w.fail(reasonError, err.Error())
	}
	w.leaveNetwork()
	// Volumes contain Secrets, which a finished pod does not need.
	if err := os.RemoveAll(w.volumesDir()); err != nil {
		klog.ErrorS(err, "Cannot remove volumes of a finished pod", "pod", klog.KObj(w.pod))
	}
}

// podFailure is the reason for which the pod as a whole fails.
type podFailure struct{ reason, message string }

func (f podFailure) Error() string { return f.message }

var errStopped = errors.New("pod was asked to end")

func (w *worker) runPod(ctx context.Context) error {
	w.publish()
	images, err := w.images()
	if err != nil {
		return err
	}
	if err := w.takeNetwork(ctx); err != nil {
		return ignoreStop(err)
	}
	if err := w.prepareVolumes(ctx); err != nil {
		return ignoreStop(err)
	}
	for i := range w.pod.Spec.InitContainers {
		container := &w.pod.Spec.InitContainers[i]
		ok, err := w.runContainer(ctx, container, images[container.Name], true)
		if err != nil || !ok {
			return ignoreStop(err)
		}
	}
	var group sync.WaitGroup
	results := make(chan error, len(w.pod.Spec.Containers))
	for i := range w.pod.Spec.Containers {
		container := &w.pod.Spec.Containers[i]
		group.Go(func() {
			_, err := w.runContainer(ctx, container, images[container.Name], false)
			results <- ignoreStop(err)
		})
	}
	group.Wait()
	close(results)
	var problems []error
	for err := range results {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// ignoreStop returns nil for errStopped. A pod that ends on request has not failed.
func ignoreStop(err error) error {
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// images finds the images of all containers before any container runs.
func (w *worker) images() (map[string]Image, error) {
	out := map[string]Image{}
	for _, container := range append(append([]corev1.Container{}, w.pod.Spec.InitContainers...),
		w.pod.Spec.Containers...) {
		image, err := findImage(w.kubelet.config.Images, container.Image)
		if err != nil {
			return nil, podFailure{reason: reasonUnknownImage, message: fmt.Sprintf("container %s: %v", container.Name,
				err)}
		}
		if image.Layout != "" {
			if image, err = w.kubelet.fromLayout(image); err != nil {
				return nil, podFailure{reason: reasonBadImage, message: fmt.Sprintf("container %s: %v", container.Name,
					err)}
			}
		}
		out[container.Name] = image
		w.change(container.Name, func(s *containerState) { s.image = image.id() })
	}
	return out, nil
}

// prepareVolumes creates the volumes once in a pod's life. It waits for missing objects.
func (w *worker) prepareVolumes(ctx context.Context) error {
	marker := filepath.Join(w.dir, "volumes-ready")
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	for {
		err := w.makeVolumes(ctx)
		if err == nil {
			return writeJSON(marker, true)
		}
		if errors.Is(err, errUnsupportedVolume) {
			return podFailure{reason: reasonUnsupported, message: err.Error()}
		}
		w.waitingAll(reasonVolumes, err.Error())
		if err := w.pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

func (w *worker) makeVolumes(ctx context.Context) error {
	var fsGroup *int64
	if w.pod.Spec.SecurityContext != nil {
		fsGroup = w.pod.Spec.SecurityContext.FSGroup
	}
	from := w.kubelet.sources(ctx)
	for _, volume := range w.pod.Spec.Volumes {
		if volume.HostPath != nil {
			if err := makeHostPath(volume.HostPath); err != nil {
				return fmt.Errorf("volume %s: %w", volume.Name, err)
			}
			continue
		}
		files, err := volumeFiles(ctx, w.pod, volume, w.node(), from, w.kubelet)
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		dir := filepath.Join(w.volumesDir(), volume.Name)
		if err := writeVolume(dir, files, fsGroup); err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		if volume.EmptyDir != nil {
			if err := openDirectory(dir, fsGroup); err != nil {
				return fmt.Errorf("volume %s: %w", volume.Name, err)
			}
		}
	}
	return nil
}

// openDirectory lets every user of the pod write to an emptyDir.
func openDirectory(dir string, group *int64) error {
	if group != nil {
		if err := os.Chown(dir, -1, int(*group)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o777)
}

// runContainer runs a container, with restarts, to its final end. ok reports whether it succeeded.
func (w *worker) runContainer(ctx context.Context, container *corev1.Container, image Image, init bool) (ok bool,
	err error) {
	pause := firstRestartPause
	for number := w.latestAttempt(container.Name); ; number++ {
		exit, err := w.runAttempt(ctx, container, image, number)
		if err != nil {
			return false, err
		}
		final := w.stopping() || !restarts(w.pod.Spec.RestartPolicy, init, exit.ExitCode)
		w.change(container.Name, func(s *containerState) {
			place := w.place(container.Name, number)
			a := attempt{dir: place.attemptDir}
			ended := terminated(exit, containerID(w.pod, container.Name, number),
				a.terminationMessage(place.logFile, exit,
					container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError))
			s.waiting, s.running, s.ended, s.final, s.attempt = nil, nil, ended, final, number
		})
		w.publish()
		if final {
			return exit.ExitCode == 0, nil
		}
		if err := w.pauseBeforeRestart(ctx, container.Name, pause); err != nil {
			return false, err
		}
		pause = min(2*pause, lastRestartPause)
	}
}

// pauseBeforeRestart shows the container as waiting and records how it ended.
func (w *worker) pauseBeforeRestart(ctx context.Context, container string, pause time.Duration) error {
	w.change(container, func(s *containerState) {
		s.last, s.ended = s.ended, nil
		s.waiting = &corev1.ContainerStateWaiting{Reason: reasonCrashLoop,
			Message: "Waiting before the container is started again"}
	})
	w.publish()
	err := w.pause(ctx, pause)
	if errors.Is(err, errStopped) {
		w.change(container, func(s *containerState) { s.ended, s.waiting, s.final = s.last, nil, true })
		w.publish()
	}
	return err
}

// runAttempt runs one attempt, or resumes the attempt that an earlier kubelet started.
func (w *worker) runAttempt(ctx context.Context, container *corev1.Container, image Image, number int) (exitRecord,
	error) {
	place := w.place(container.Name, number)
	a := attempt{dir: place.attemptDir}
	for !a.prepared() {
		spec, err := buildSpec(w.pod, container, image, w.node(), place, w.kubelet.sources(ctx))
		spec.Network = w.network.Path
		if err == nil {
			err = a.prepare(spec)
		}
		if err == nil {
			break
		}
		w.change(container.Name, func(s *containerState) {
			s.waiting = &corev1.ContainerStateWaiting{Reason: reasonConfigError, Message: err.Error()}
		})
		w.publish()
		if err := w.pause(ctx, retryPause); err != nil {
			return exitRecord{}, err
		}
	}
	if w.stopping() {
		if _, err := os.Stat(filepath.Join(a.dir, claimFile)); err != nil {
			return exitRecord{}, errStopped // the attempt never started
		}
	}
	over := make(chan struct{})
	defer close(over)
	go w.passSignals(a, over)
	asked := w.asksReadiness(container)
	return a.run(ctx, func(start startRecord) {
		w.change(container.Name, func(s *containerState) {
			if s.ended != nil && s.attempt == number {
				return
			}
			s.waiting, s.ended, s.attempt, s.unready = nil, nil, number, asked
			s.running = &corev1.ContainerStateRunning{StartedAt: seconds(start.StartedAt)}
		})
		w.publish()
		if asked {
			go w.watchReadiness(ctx, container, over)
		}
	})
}

// passSignals signals the shim when the pod has to end: SIGTERM first, and SIGKILL after the grace period. It repeats
// each signal until the attempt is over, because the shim may not have been ready for the first one.
func (w *worker) passSignals(a attempt, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-w.stop:
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	sig := syscall.SIGTERM
	kill := w.kill
	for sent := false; ; {
		if !sent || sig == killSignal {
			a.signal(sig)
		}
		sent = true
		select {
		case <-over:
			return
		case <-kill:
			sig, sent, kill = killSignal, false, nil
		case <-ticker.C:
		}
	}
}

// end asks the pod to end within grace. It returns at once.
func (w *worker) end(grace time.Duration) {
	w.stopOnce.Do(func() { close(w.stop) })
	if grace <= 0 {
		w.killOnce.Do(func() { close(w.kill) })
		return
	}
	go func() {
		select {
		case <-w.done:
		case <-time.After(grace):
			w.killOnce.Do(func() { close(w.kill) })
		}
	}()
}

func (w *worker) stopping() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// pause waits for a duration, or until the pod has to end or the kubelet stops.
func (w *worker) pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stop:
		return errStopped
	case <-time.After(duration):
		return nil
	}
}

// latestAttempt returns the number of the newest attempt on disk, or 0.
func (w *worker) latestAttempt(container string) int {
	entries, err := os.ReadDir(filepath.Join(w.dir, "containers", container))
	if err != nil {
		return 0
	}
	latest := 0
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil {
			latest = max(latest, number)
		}
	}
	return latest
}

func (w *worker) place(container string, number int) containerPlace {
	dir := filepath.Join(w.dir, "containers", container, strconv.Itoa(number))
	return containerPlace{attemptDir: dir, logFile: filepath.Join(dir, "output.log"), volumesDir: w.volumesDir()}
}

func (w *worker) volumesDir() string { return filepath.Join(w.dir, "volumes") }

func (w *worker) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
