package credentialcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Facts holds the cached facts about one cluster.
type Facts struct {
	cluster *provv1.Cluster
	// checks are those of the cluster's pools, each once, in a stable order.
	checks []check
	// unknown means that an answer about the access to a Secret is missing.
	unknown bool
	// unserved means that a machine config cannot be read yet.
	unserved bool
	now      time.Time
}

// check is one credential with what its driver needs from one machine config. Absent objects are nil.
type check struct {
	driver     string
	credential *corev1.Secret
	problems   []cloudcredential.Problem
	// question is nil if the driver has no check, or if the keys of the credential do not fit.
	question *credentialjob.Question
	record   *corev1.Secret
	job      *batchv1.Job
	pods     []*corev1.Pod
	// outdated are records of earlier versions of the credential.
	outdated []*corev1.Secret
	// result is the known result.
	result *credentialjob.Result
}

func (h *handler) gather(cluster *provv1.Cluster) (*Facts, error) {
	facts := &Facts{cluster: cluster, now: h.Now()}
	seen := map[string]bool{}
	for _, use := range topology.CredentialUses(cluster) {
		found, id, err := h.gatherCheck(facts, use)
		if err != nil {
			return nil, err
		}
		if facts.unknown || facts.unserved {
			return facts, nil
		}
		if found != nil && !seen[id] {
			seen[id] = true
			facts.checks = append(facts.checks, *found)
		}
	}
	slices.SortStableFunc(facts.checks, func(a, b check) int { return cmp.Compare(a.name(), b.name()) })
	for i := range facts.checks {
		if err := h.gatherRecord(cluster, &facts.checks[i], facts.now); err != nil {
			return nil, err
		}
	}
	return facts, nil
}

// gatherCheck returns the check of one use of a credential, and what identifies it. It returns nil if a part is
// missing, which controller provisioningcluster and the machines report.
func (h *handler) gatherCheck(facts *Facts, use topology.CredentialUse) (*check, string, error) {
	driver := driverschema.Stem(use.Config.Kind)
	credential, err := h.gatherCredential(facts, use.Reference)
	if err != nil || facts.unknown || credential == nil {
		return nil, "", err
	}
	known, err := h.gatherSchema(driver)
	if err != nil {
		return nil, "", err
	}
	found := &check{driver: driver, credential: credential,
		problems: cloudcredential.Problems(credential.Data, driver, known)}
	if len(found.problems) == 0 && !credentialjob.HasCheck(driver) {
		return found, found.id(), nil
	}
	config, err := h.gatherConfig(facts, use, known != nil)
	if err != nil || facts.unserved {
		return nil, "", err
	}
	if config != nil {
		found.problems = slices.DeleteFunc(found.problems, func(p cloudcredential.Problem) bool {
			return p.SolvedBy(config.Object)
		})
	}
	switch {
	case len(found.problems) > 0 || !credentialjob.HasCheck(driver):
		return found, found.id(), nil
	case config == nil:
		return nil, "", nil // the kind is not served yet, or the user has not created it yet
	}
	return found, h.ask(found, config), nil
}

// id identifies a check without a question.
func (c *check) id() string { return fmt.Sprint(c.driver, "/", c.name(), c.problems) }

// gatherConfig reads a machine config, nil if there is none. While the cache of its kind is not filled, for example
// after a start, an object that exists would look absent.
func (h *handler) gatherConfig(facts *Facts, use topology.CredentialUse,
	isActive bool) (*unstructured.Unstructured, error) {
	gvk, namespace := use.Config.GVK(), facts.cluster.Namespace
	if isActive && !h.Kinds.Synced(gvk) {
		facts.unserved = true
		return nil, nil
	}
	config, err := clients.Optional(h.Kinds.Get(gvk, namespace, use.Config.Name))
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", use.Config.Kind, namespace, use.Config.Name, err)
	}
	return config, nil
}

// ask adds the question, and returns its name.
func (h *handler) ask(found *check, config *unstructured.Unstructured) string {
	question := credentialjob.Ask(found.driver, found.credential, config)
	found.question = &question
	return question.Name()
}

func (c *check) name() string { return c.credential.Namespace + "/" + c.credential.Name }

// gatherCredential reads a credential if the cluster may use it. It returns nil if not, or if there is none.
func (h *handler) gatherCredential(facts *Facts, reference string) (*corev1.Secret, error) {
	namespace, name := topology.CredentialSecret(facts.cluster.Namespace, reference)
	credential, err := clients.Optional(h.secrets.Get(namespace, name))
	if err != nil || credential == nil {
		return nil, err
	}
	verdict, _ := h.Access.Check(facts.cluster, types.NamespacedName{Namespace: namespace, Name: name},
		credential.Annotations)
	facts.unknown = verdict == access.Unknown
	if verdict != access.Allowed {
		return nil, nil
	}
	return credential, nil
}

// gatherSchema returns the schema of a driver, nil if the driver is not active.
func (h *handler) gatherSchema(driver string) (*cloudcredential.Schema, error) {
	known := &cloudcredential.Schema{}
	for name, fields := range map[string]*map[string]mgmtv3.Field{
		driverschema.CredentialSchema(driver): &known.Credential, driverschema.ConfigSchema(driver): &known.Config,
	} {
		found, err := clients.Optional(h.schemas.Get(name))
		if err != nil {
			return nil, fmt.Errorf("read schema %s: %w", name, err)
		}
		if found == nil {
			return nil, nil
		}
		*fields = found.Spec.ResourceFields
	}
	return known, nil
}

// gatherRecord reads what exists for the question, and the records of earlier versions.
func (h *handler) gatherRecord(cluster *provv1.Cluster, c *check, now time.Time) error {
	failed, err := h.lastFailure(cluster, c.driver)
	if err != nil {
		return err
	}
	records, err := h.secrets.GetByIndex(indexRecords, cluster.Namespace+"/"+c.name())
	if err != nil {
		return fmt.Errorf("list the checks of Secret %s: %w", c.name(), err)
	}
	for _, record := range records {
		if record.DeletionTimestamp == nil && (credentialjob.Outdated(record, c.credential) ||
			credentialjob.Repeats(record, failed, now)) {
			c.outdated = append(c.outdated, record)
		}
	}
	if c.question == nil {
		return nil
	}
	name := c.question.Name()
	if c.record, err = clients.Optional(h.secrets.Get(cluster.Namespace, name)); err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", cluster.Namespace, name, err)
	}
	if c.job, err = clients.Optional(h.jobs.Get(cluster.Namespace, name)); err != nil {
		return fmt.Errorf("read Job %s/%s: %w", cluster.Namespace, name, err)
	}
	if c.pods, err = h.pods.GetByIndex(indexPods, cluster.Namespace+"/"+name); err != nil {
		return fmt.Errorf("list pods of Job %s/%s: %w", cluster.Namespace, name, err)
	}
	return nil
}

// lastFailure returns when the last Job of an existing machine of a driver failed, zero if none did.
func (h *handler) lastFailure(cluster *provv1.Cluster, driver string) (last time.Time, err error) {
	if !credentialjob.HasCheck(driver) {
		return last, nil
	}
	selector := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: cluster.Name})
	machines, err := h.machines.List(cluster.Namespace, selector)
	if err != nil {
		return last, fmt.Errorf("list machines of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	for _, machine := range machines {
		if at := failedAt(machine); at.After(last) && driverschema.Stem(machine.Spec.InfrastructureRef.Kind) == driver {
			last = at
		}
	}
	return last, nil
}

// failedAt returns when the Job of a machine failed, zero if none did.
func failedAt(machine *clusterv1.Machine) time.Time {
	ready := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	if ready == nil || ready.Reason != rkev1.ReasonCreateError && ready.Reason != rkev1.ReasonDeleteError {
		return time.Time{}
	}
	return ready.LastTransitionTime.Time
}
