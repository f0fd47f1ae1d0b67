package bootstrap

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

func tokenOfMachine(machine *clusterv1.Machine) []wakeup.Key {
	return tokens(ofMachine(machine))
}

// tokens turns the keys of RKEBootstraps into the keys of their token Secrets.
func tokens(keys []wakeup.Key) []wakeup.Key {
	for i := range keys {
		keys[i].Name = namesOf(keys[i].Name).token
	}
	return keys
}

// tokenOfPlan returns the token of the machine whose agent has reported.
func tokenOfPlan(secret *corev1.Secret) []wakeup.Key {
	owner := metav1.GetControllerOf(secret)
	if secret.Type != rkev1.SecretTypeMachinePlan || owner == nil || owner.Kind != "RKEBootstrap" ||
		!nodeplan.Heard(secret.Data) {
		return nil
	}
	return []wakeup.Key{{Namespace: secret.Namespace, Name: namesOf(owner.Name).token}}
}

// inUse reports that the Secret is a machine's token and still valid.
func inUse(secret *corev1.Secret) bool {
	return secret.DeletionTimestamp == nil && secret.Annotations[rkev1.BootstrapTokenAnnotation] == "true" &&
		secret.Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "true"
}

// onToken invalidates a machine's token when the machine has become a node, or some time after its last use once its
// agent has reported. The endpoint for machines refuses such a token. A machine never gets another token, so this one
// must last until a slow machine has registered.
func (h *handler) onToken(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
	if secret == nil || !inUse(secret) || h.written.Behind(secret, h.Now()) {
		return secret, nil
	}
	machine, err := clients.Optional(h.machines.Get(secret.Namespace, secret.Labels[rkev1.MachineNameLabel]))
	if err != nil || machine == nil {
		return secret, err // without its machine the token is useless
	}
	if ours, err := h.ours(machine.Namespace, machine.Spec.ClusterName); err != nil || !ours {
		return secret, err
	}
	token, err := h.use(secret, machine)
	if err != nil {
		return secret, err
	}
	expired, left := token.Expired(h.Settings.ReusedTTL)
	if !expired {
		if left > 0 {
			h.Secrets.EnqueueAfter(secret.Namespace, secret.Name, left)
		}
		return secret, nil
	}
	next := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, rkev1.BootstrapTokenInvalidatedAnnotation, "true")
	updated, err := h.Secrets.Update(next)
	if err != nil {
		return secret, fmt.Errorf("invalidate token %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	h.written.Replaced(secret.UID, secret.ResourceVersion, h.Now())
	return updated, nil
}

// use gathers the facts about a token's use.
func (h *handler) use(secret *corev1.Secret, machine *clusterv1.Machine) (bootstrapdata.Token, error) {
	plan, err := clients.Optional(h.secrets.Get(secret.Namespace,
		namesOf(secret.Labels[rkev1.BootstrapNameLabel]).plan))
	if err != nil {
		return bootstrapdata.Token{}, err
	}
	token := bootstrapdata.Token{Joined: machine.Status.NodeRef.IsDefined(), Heard: plan != nil &&
		nodeplan.Heard(plan.Data), Now: h.Now()}
	if used := secret.Annotations[rkev1.LastAccessAnnotation]; used != "" {
		last, err := time.Parse(time.RFC3339, used)
		token.LastUse, token.BadLastUse = last, err != nil
	}
	return token, nil
}
