package bootstrap

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// adoptName sets the cluster name to that of Cluster API's label, because templates may be shared.
func (h *handler) adoptName(bootstrap *rkev1.RKEBootstrap, cluster string) (*rkev1.RKEBootstrap, error) {
	next := bootstrap.DeepCopy()
	next.Spec.ClusterName = cluster
	updated, err := h.Bootstraps.Update(next)
	if err == nil {
		h.written.Replaced(bootstrap.UID, bootstrap.ResourceVersion, h.Now())
	} else {
		return bootstrap, fmt.Errorf("write spec.clusterName of RKEBootstrap %s/%s: %w", bootstrap.Namespace,
			bootstrap.Name, err)
	}
	return updated, nil
}

// act creates what is missing, in order. It returns true when the bootstrap data exist. Until then, the events of the
// new objects requeue the RKEBootstrap.
func (h *handler) act(s snapshot) (bool, error) {
	if err := h.ensureAccounts(s); err != nil {
		return false, err
	}
	if err := h.ensurePlan(s); err != nil {
		return false, err
	}
	if s.controlPlane == nil {
		return false, nil
	}
	if s.data != nil {
		return true, nil
	}
	if s.account == nil {
		return false, nil // just created
	}
	if s.token == nil || s.token.Annotations[corev1.ServiceAccountUIDKey] == "" {
		return false, h.ensureToken(s)
	}
	token := string(s.token.Data[corev1.ServiceAccountTokenKey])
	if token == "" || s.token.Annotations[corev1.ServiceAccountUIDKey] != string(s.account.UID) {
		return false, nil // the API server has not filled it in yet, or is about to delete it
	}
	data, err := h.data(s, token)
	if err != nil {
		return false, err
	}
	return true, h.create(s, s.dataSecret(data))
}

// ensureAccounts creates the accounts and rights, and repairs them when the caches show that some are missing.
func (h *handler) ensureAccounts(s snapshot) error {
	objects := s.objects()
	done := fmt.Sprintf("accounts/%s/%d", s.bootstrap.UID, len(objects))
	if h.written.Left(done, h.Now()) > 0 {
		h.requeueLater(s)
		return nil
	}
	result, err := h.Apply.Apply(h.ctx, handlerName, s.bootstrap, applyset.ControllerRef, setKinds(), objects)
	if err != nil {
		return err
	}
	if result.Changed() {
		h.written.Did(done, h.Now())
	}
	return nil
}

func (h *handler) ensureToken(s snapshot) error {
	if s.token != nil {
		return nil
	}
	return h.create(s, s.tokenSecret())
}

// create creates a Secret that the caches do not show. It records only writes that succeed, so that a refused write is
// retried.
func (h *handler) create(s snapshot, secret *corev1.Secret) error {
	key := secret.Namespace + "/" + secret.Name
	if h.written.Left(key, h.Now()) > 0 {
		h.requeueLater(s)
		return nil
	}
	_, err := h.Secrets.Create(secret)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	h.written.Did(key, h.Now())
	return nil
}

// requeueLater requeues after the time for which the caches may be behind. A missing object may be a late cache, or may
// have been deleted before the cache showed it. In the second case no event follows.
func (h *handler) requeueLater(s snapshot) {
	h.Bootstraps.EnqueueAfter(s.bootstrap.Namespace, s.bootstrap.Name, ownwrites.BelievedAfter)
}

// ensurePlan creates the plan Secret and restores its labels. The planner and the agent own the rest. It writes as
// rarely as possible, because a write makes a busy agent start over.
func (h *handler) ensurePlan(s snapshot) error {
	want := s.planSecret()
	if s.plan == nil {
		return h.create(s, want)
	}
	next := s.plan.DeepCopy()
	changed := false
	for key, value := range want.Labels {
		if next.Labels[key] != value {
			if next.Labels == nil {
				next.Labels = map[string]string{}
			}
			next.Labels[key], changed = value, true
		}
	}
	if !changed {
		return nil
	}
	if _, err := h.Secrets.Update(next); err != nil {
		return fmt.Errorf("write labels of plan Secret %s/%s: %w", next.Namespace, next.Name, err)
	}
	return nil
}

const (
	rkeGroup   = "rke.cattle.io"
	elementals = "elemental.cattle.io"
)

// data returns the machine's script in the format of its infrastructure.
func (h *handler) data(s snapshot, token string) (string, error) {
	script := bootstrapdata.Script{
		Installer: h.Settings.LinuxInstaller, ServerURL: strings.TrimRight(h.Settings.ServerURL, "/"),
		CAChecksum:   naming.CAChecksum(h.Settings.CACerts),
		AccountToken: token, Env: s.controlPlane.Spec.AgentEnvVars,
		AgentDataDir: s.controlPlane.Spec.DataDirectories.SystemAgent,
		ServesAgent:  h.Settings.ServesAgent,
	}
	if s.machine.Labels[rkev1.CattleOSLabel] == rkev1.OSWindows {
		return "", refuse(errors.New("machines with Windows are not supported; use a Linux machine without the label " +
			rkev1.CattleOSLabel + "=" + rkev1.OSWindows))
	}
	own := ownInfrastructure(s.machine.Spec.InfrastructureRef.APIGroup)
	text, err := bootstrapdata.Linux(script)
	if own || err != nil {
		return text, refuse(err)
	}
	userdata := ""
	if s.bootstrap.Spec.Userdata != nil {
		userdata = s.bootstrap.Spec.Userdata.InlineUserdata
	}
	text, err = bootstrapdata.CloudConfig(text, userdata)
	return text, refuse(err)
}

// refuse marks a rendering error as one that a person must fix, because a retry with the same input fails again.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return outcome.Stall(bootstrapdata.ReasonBadInput, err.Error())
}

// ownInfrastructure reports whether the infrastructure takes plain scripts. Any other provider of Cluster API takes
// cloud-config.
func ownInfrastructure(group string) bool {
	return group == driverschema.MachineGroup || group == rkeGroup || group == elementals
}
