package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// adoptName makes the cluster that Cluster API put on the object its own: templates may be shared.
func (h *handler) adoptName(bootstrap *rkev1.RKEBootstrap, cluster string) (*rkev1.RKEBootstrap, error) {
	next := bootstrap.DeepCopy()
	next.Spec.ClusterName = cluster
	updated, err := h.Bootstraps.Update(next)
	if err == nil {
		h.written.Replaced(bootstrap.UID, bootstrap.ResourceVersion, h.Now())
	} else {
		return bootstrap, fmt.Errorf("write cluster name of RKEBootstrap %s/%s: %w", bootstrap.Namespace, bootstrap.Name, err)
	}
	return updated, nil
}

// act makes what is missing, in order. It returns true when the bootstrap data exist; until then the events of what it
// made bring it back.
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
		return false, nil // just made
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

// ensureAccounts makes the accounts and rights, and repairs them when the caches show what is missing.
func (h *handler) ensureAccounts(s snapshot) error {
	objects := s.objects()
	done := fmt.Sprintf("accounts/%s/%d", s.bootstrap.UID, len(objects))
	if h.written.Left(done, h.Now()) > 0 {
		h.lookAgain(s)
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

// create makes a Secret that the caches do not show. Only what is there is noted: a refused write is tried again.
func (h *handler) create(s snapshot, secret *corev1.Secret) error {
	key := secret.Namespace + "/" + secret.Name
	if h.written.Left(key, h.Now()) > 0 {
		h.lookAgain(s)
		return nil
	}
	_, err := h.Secrets.Create(secret)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	h.written.Did(key, h.Now())
	return nil
}

// lookAgain comes back when the caches are believed again. They may lack what we made because they are behind, and then an
// event is on its way, or because somebody took it away, and then there is none.
func (h *handler) lookAgain(s snapshot) {
	h.Bootstraps.EnqueueAfter(s.bootstrap.Namespace, s.bootstrap.Name, ownwrites.BelievedAfter)
}

// ensurePlan makes the plan Secret, and puts back what says whose it is. Everything else in it is the planner's and the
// agent's, and it is written to as rarely as possible: an agent that is at work has to start over.
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
	windows    = "windows"
	rkeGroup   = "rke.cattle.io"
	elementals = "elemental.cattle.io"
)

// data is the machine's script, in the form that its infrastructure takes.
func (h *handler) data(s snapshot, token string) (string, error) {
	script := bootstrapdata.Script{
		Installer: h.Settings.LinuxInstaller, ServerURL: strings.TrimRight(h.Settings.ServerURL, "/"), CAChecksum: checksum(h.Settings.CACerts),
		AccountToken: token, Env: s.controlPlane.Spec.AgentEnvVars, AgentDataDir: s.controlPlane.Spec.DataDirectories.SystemAgent,
		ServesAgent: h.Settings.ServesAgent,
	}
	own := ownInfrastructure(s.machine.Spec.InfrastructureRef.APIGroup)
	if s.machine.Labels[rkev1.CattleOSLabel] == windows {
		if h.Settings.WindowsInstaller == "" || !own {
			return "", refuse(errors.New("machines with Windows are not supported here: there is no installer for their agent; " +
				"use a machine with Linux, and no label " + rkev1.CattleOSLabel + "=" + windows))
		}
		runtime := distro.RuntimeOf(s.controlPlane.Spec.KubernetesVersion)
		script.Installer = h.Settings.WindowsInstaller
		script.CSIProxy.KubeletPath = "C:" + distro.DirsFor(runtime, s.controlPlane.Spec.DataDirectories).Data + "/bin/kubelet.exe"
		text, err := bootstrapdata.Windows(script)
		return text, refuse(err)
	}
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

// refuse makes an error of rendering one that a person has to end: the same input would give the same error.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return outcome.Stall(bootstrapdata.ReasonBadInput, err.Error())
}

// ownInfrastructure takes plain scripts; any other provider of Cluster API takes cloud-config.
func ownInfrastructure(group string) bool {
	return group == driverschema.MachineGroup || group == rkeGroup || group == elementals
}

// checksum is what the install script compares the server's authority with: SHA-256 of the PEM with one line end.
func checksum(pem string) string {
	pem = strings.TrimRight(pem, "\n")
	if pem == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(pem + "\n"))
	return hex.EncodeToString(sum[:])
}
