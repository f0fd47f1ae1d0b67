package server

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-io/drover/pkg/controllers"
)

// publishAgain is the back-off of publishing: one second at first, then longer up to a minute.
var publishAgain = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: math.MaxInt32, Cap: time.Minute}

// publish publishes the settings that the controllers depend on, for other programs. Only the leader writes them, and
// only if they differ. A failure does not stop the leader: it retries until it succeeds or the term ends.
func (s *Server) publish(ctx context.Context) {
	s.retryUntilDone(ctx,
		"Cannot publish the settings; until then, drover explain, preview and roll need them as flags",
		s.publishSettings)
	s.retryUntilDone(ctx,
		"Cannot grant users the published settings; until then, users without that permission need --server for "+
			"drover kubeconfig",
		s.grantSettings)
}

// retryUntilDone retries do until it succeeds or the term ends. It logs each new error once, with its consequence.
func (s *Server) retryUntilDone(ctx context.Context, failed string, do func(context.Context) error) {
	told := ""
	_ = publishAgain.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			s.opts.Log.WithError(err).Warn(failed)
		}
		return err == nil, nil
	})
}

func (s *Server) publishSettings(ctx context.Context) error {
	settings := s.opts.Settings
	settings.ClusterAgentImage = s.opts.installedAgent()
	wanted := settings.ConfigMap(s.opts.InstanceID)
	client := s.every.Kubernetes.CoreV1().ConfigMaps(wanted.Namespace)
	found, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
		return wrapped(wanted, err)
	case err != nil:
		return wrapped(wanted, err)
	case maps.Equal(found.Data, wanted.Data) && contains(found.Labels, wanted.Labels) &&
		contains(found.Annotations, wanted.Annotations):
		return nil
	}
	changed := found.DeepCopy()
	changed.Data = wanted.Data
	changed.Labels, changed.Annotations = labels.Merge(found.Labels, wanted.Labels),
		labels.Merge(found.Annotations, wanted.Annotations)
	_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
	return wrapped(wanted, err)
}

// grantSettings grants users the right to get the published settings, by name. The chart cannot do that, because it
// does not know the instance. Drover leaves existing objects unchanged, so that an operator can grant the right to
// others.
func (s *Server) grantSettings(ctx context.Context) error {
	role, binding := controllers.SettingsReaders(s.opts.InstanceID)
	client := s.every.Kubernetes.RbacV1()
	_, err := client.Roles(role.Namespace).Get(ctx, role.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Roles(role.Namespace).Create(ctx, role, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create Role %s/%s: %w", role.Namespace, role.Name, err)
	}
	_, err = client.RoleBindings(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.RoleBindings(binding.Namespace).Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
	return nil
}

func wrapped(object *corev1.ConfigMap, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("publish settings in ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}
