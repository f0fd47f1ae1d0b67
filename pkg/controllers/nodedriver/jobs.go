package nodedriver

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// addIndexes adds the indexes by which a driver finds its Jobs and a Job its pods.
func (h *handler) addIndexes() {
	h.jobs.AddIndexer(indexJobs, func(job *batchv1.Job) ([]string, error) { return keys(h.ofJob(job)), nil })
	h.pods.AddIndexer(indexPods, func(pod *corev1.Pod) ([]string, error) {
		if owner := metav1.GetControllerOf(pod); owner != nil && len(h.ofJob(pod)) > 0 {
			return []string{owner.Name}, nil
		}
		return nil, nil
	})
}

// ofJob returns the driver of a Job or of its pod. Objects in other namespaces have none, because tenants may write
// them.
func (h *handler) ofJob(object metav1.Object) []wakeup.Key {
	name := object.GetAnnotations()[driverjob.DriverAnnotation]
	if name == "" || object.GetNamespace() != h.Settings().Namespace {
		return nil
	}
	return []wakeup.Key{{Name: name}}
}

func keys(of []wakeup.Key) []string {
	out := make([]string, 0, len(of))
	for _, key := range of {
		out = append(out, key.Name)
	}
	return out
}

// gatherJobs observes the Jobs of a driver.
func (h *handler) gatherJobs(driver *mgmtv3.NodeDriver) ([]driverjob.State, error) {
	jobs, err := h.jobs.GetByIndex(indexJobs, driver.Name)
	if err != nil {
		return nil, fmt.Errorf("list Jobs of NodeDriver %s: %w", driver.Name, err)
	}
	var out []driverjob.State
	for _, job := range jobs {
		if !driverjob.Owned(job.OwnerReferences, driver) {
			continue // of an earlier NodeDriver with the same name
		}
		pods, err := h.pods.GetByIndex(indexPods, job.Name)
		if err != nil {
			return nil, fmt.Errorf("list pods of Job %s: %w", job.Name, err)
		}
		out = append(out, driverjob.Observe(job, pods))
	}
	return out, nil
}

// act deletes outdated Jobs and starts the next attempt. Every step may be repeated after a crash.
func (h *handler) act(s snapshot, jobs []driverjob.State, decision driverjob.Decision) error {
	for _, name := range decision.Outdated {
		if err := h.remove(s, name); err != nil {
			return err
		}
	}
	if decision.Run > 0 {
		return h.run(driverjob.Render(s.driver, s.settings, decision.Run))
	}
	for _, job := range jobs {
		if job.Phase != machinejob.PhaseRunning || job.Deleting || job.Key != driverjob.Key(s.driver, s.settings) {
			continue
		}
		objects := driverjob.Render(s.driver, s.settings, job.Attempt)
		if err := h.ensureProxy(objects.Proxy, job.Name, job.UID); err != nil {
			return err
		}
	}
	return nil
}

// tidy deletes the Jobs of an installed driver, because its schema and its status have their answer.
func (h *handler) tidy(s snapshot) error {
	jobs, err := h.gatherJobs(s.driver)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if job.Deleting {
			continue
		}
		if err := h.remove(s, job.Name); err != nil {
			return err
		}
	}
	return nil
}

func (h *handler) remove(s snapshot, job string) error {
	err := h.Jobs.Delete(s.settings.Namespace, job,
		&metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Job %s: %w", job, err)
	}
	return nil
}

// run creates a Job once, and then what its pod waits for.
func (h *handler) run(objects driverjob.Objects) error {
	job, err := h.Jobs.Create(objects.Job)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will show it
	}
	if err != nil {
		return fmt.Errorf("create Job %s: %w", objects.Job.Name, err)
	}
	return h.ensureProxy(objects.Proxy, job.Name, job.UID)
}

// ensureProxy creates the Secret with the passwords of proxies, if there are any. The Job owns it.
func (h *handler) ensureProxy(secret *corev1.Secret, job string, uid types.UID) error {
	if secret == nil {
		return nil
	}
	existing, err := clients.Optional(h.Secrets.Cache().Get(secret.Namespace, secret.Name))
	if err != nil || existing != nil {
		return err
	}
	if _, err := h.Secrets.Create(driverjob.OwnedBy(secret, job, uid)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s: %w", secret.Name, err)
	}
	return nil
}
