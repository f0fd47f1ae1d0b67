package credentialcheck

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/events"
)

// act takes the next step of a check. Every step may be repeated after a crash.
func (h *handler) act(facts *Facts, c *check) (after time.Duration, err error) {
	for _, record := range c.outdated {
		if err := h.remove(record); err != nil {
			return 0, err
		}
	}
	if c.question == nil {
		return 0, nil
	}
	decision := credentialjob.Decide(c.record, c.job, c.pods, facts.now)
	c.result = decision.Result
	switch decision.Action {
	case credentialjob.Begin:
		err = h.begin(facts, c)
	case credentialjob.Run:
		err = h.run(facts, c)
	case credentialjob.Finish:
		err = h.finish(c)
	case credentialjob.Tidy:
		err = h.removeJob(c.record)
	case credentialjob.Wait:
	}
	return decision.After, err
}

// begin writes the record once, and creates its Job.
func (h *handler) begin(facts *Facts, c *check) error {
	record, err := credentialjob.Record(*c.question, c.credential, facts.cluster, h.Settings())
	if err != nil {
		return err
	}
	stored, err := h.Secrets.Create(record)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will show it
	}
	if err != nil {
		return fmt.Errorf("create Secret %s: %w", record.Name, err)
	}
	c.record = stored
	return h.create(facts, c)
}

// run creates the Job of a record that has no result. The cache may not show the result yet.
func (h *handler) run(facts *Facts, c *check) error {
	record := c.record
	live, err := clients.Optional(h.Secrets.Get(record.Namespace, record.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", record.Name, err)
	}
	if live == nil || live.UID != record.UID || live.DeletionTimestamp != nil ||
		!credentialjob.IsOpen(live) {
		return nil // the cache will show it
	}
	c.record = live
	return h.create(facts, c)
}

// create creates the Job. If a quota or a policy of the namespace refuses it, that is the result.
func (h *handler) create(facts *Facts, c *check) error {
	settings := h.Settings()
	pull, err := h.copyPullSecrets(c.record, settings)
	if err != nil {
		return err
	}
	job := credentialjob.Job(c.record, settings, pull)
	_, err = h.Jobs.Create(job)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		c.result = credentialjob.Refused(err, facts.now)
		return h.finish(c)
	}
	return fmt.Errorf("create Job %s: %w", job.Name, err)
}

// copyPullSecrets copies the existing Secrets for the image into the namespace of the Job, and returns their names. The
// record owns the copies.
func (h *handler) copyPullSecrets(record *corev1.Secret, settings credentialjob.Settings) ([]string, error) {
	var names []string
	for i, key := range settings.PullSecrets {
		secret, err := clients.Optional(h.secrets.Get(key.Namespace, key.Name))
		if err != nil {
			return nil, err
		}
		if secret == nil || secret.Type != corev1.SecretTypeDockerConfigJson {
			continue
		}
		name := pullName(record, i)
		pull := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: name,
				OwnerReferences: []metav1.OwnerReference{credentialjob.OwnerOf(record)}},
			Type: secret.Type, Data: secret.Data,
		}
		if _, err := h.Secrets.Create(pull); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create Secret %s: %w", name, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// pullName names a copy of a Secret for the image. A record of the same name that is created again has other copies,
// because the garbage collector may still delete the former ones.
func pullName(record *corev1.Secret, i int) string {
	const digits = 5
	return naming.SafeConcat(record.Name, "pull", naming.SHA256(string(record.UID))[:digits], strconv.Itoa(i))
}

// finish writes the result, announces it, and deletes the Job with its pod.
func (h *handler) finish(c *check) error {
	if _, err := h.Secrets.Update(credentialjob.Finished(c.record, *c.result)); err != nil {
		return fmt.Errorf("write Secret %s: %w", c.record.Name, err)
	}
	h.Announce(events.CredentialChecked(c.credential, *c.result))
	return h.removeJob(c.record)
}

// removeJob deletes the Job of a record, and the copies of Secrets for the image, which only the Job needs.
func (h *handler) removeJob(record *corev1.Secret) error {
	for i := range h.Settings().PullSecrets {
		name := pullName(record, i)
		if err := h.Secrets.Delete(record.Namespace, name, nil); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Secret %s: %w", name, err)
		}
	}
	err := h.Jobs.Delete(record.Namespace, record.Name,
		&metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Job %s: %w", record.Name, err)
	}
	return nil
}

// remove deletes a record. The garbage collector deletes its Job.
func (h *handler) remove(record *corev1.Secret) error {
	err := h.Secrets.Delete(record.Namespace, record.Name, &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &record.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Secret %s: %w", record.Name, err)
	}
	return nil
}
