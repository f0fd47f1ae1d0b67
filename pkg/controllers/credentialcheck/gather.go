package credentialcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// abandoned are records of questions that the cluster no longer asks.
	abandoned []*corev1.Secret
	// again is the time until a credential is checked again, zero if none is.
	again time.Duration
	now   time.Time
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
	// outdated are records of earlier versions of the credential, and those to repeat.
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
		if err := h.gatherOutdated(facts, &facts.checks[i]); err != nil {
			return nil, err
		}
		if err := h.gatherRecord(cluster, &facts.checks[i]); err != nil {
			return nil, err
		}
	}
	return facts, h.gatherAbandoned(facts)
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
	return h.ask(found, config)
}

// ask adds the question of a check, and returns what identifies it. It returns nil if the machine config is missing.
func (*handler) ask(found *check, config *unstructured.Unstructured) (*check, string, error) {
	if config != nil {
		found.problems = slices.DeleteFunc(found.problems, func(p cloudcredential.Problem) bool {
			return p.SolvedBy(config.Object)
		})
	}
	switch {
	case len(found.problems) > 0 || !credentialjob.HasCheck(found.driver):
		return found, found.id(), nil
	case config == nil:
		return nil, "", nil // the kind is not served yet, or the user has not created it yet
	}
	question := credentialjob.Ask(found.driver, found.credential, config)
	found.question = &question
	return found, question.Name(), nil
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

// gatherAbandoned finds records that this cluster created, and whose question it asks no longer. Without a result they
// have the credential. Another cluster that still asks creates its own record.
func (h *handler) gatherAbandoned(facts *Facts) error {
	cluster := facts.cluster
	records, err := h.secrets.GetByIndex(indexOwned, cluster.Namespace+"/"+cluster.Name)
	if err != nil {
		return fmt.Errorf("list the checks of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	for _, record := range records {
		isAsked := slices.ContainsFunc(facts.checks, func(c check) bool {
			return c.question != nil && c.question.Name() == record.Name
		})
		if !isAsked && record.DeletionTimestamp == nil && credentialjob.IsOpen(record) {
			facts.abandoned = append(facts.abandoned, record)
		}
	}
	return nil
}

// gatherOutdated finds the records of the credential that no longer count, and those that are repeated later.
func (h *handler) gatherOutdated(facts *Facts, c *check) error {
	cluster := facts.cluster
	seen, err := h.gatherEvidence(cluster, c.driver)
	if err != nil {
		return err
	}
	records, err := h.secrets.GetByIndex(indexRecords, cluster.Namespace+"/"+c.name())
	if err != nil {
		return fmt.Errorf("list the checks of Secret %s: %w", c.name(), err)
	}
	for _, record := range records {
		due := credentialjob.Due(record, seen)
		wait := due.Sub(facts.now)
		switch {
		case record.DeletionTimestamp != nil:
		case credentialjob.Outdated(record, c.credential), !due.IsZero() && wait <= 0:
			c.outdated = append(c.outdated, record)
		case !due.IsZero() && (facts.again == 0 || wait < facts.again):
			facts.again = wait
		}
	}
	return nil
}

// gatherRecord reads what exists for the question.
func (h *handler) gatherRecord(cluster *provv1.Cluster, c *check) (err error) {
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

// gatherEvidence returns what the existing machines of a driver tell about its credentials.
func (h *handler) gatherEvidence(cluster *provv1.Cluster, driver string) (seen credentialjob.Evidence, err error) {
	if !credentialjob.HasCheck(driver) {
		return seen, nil
	}
	selector := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: cluster.Name})
	machines, err := h.machines.List(cluster.Namespace, selector)
	if err != nil {
		return seen, fmt.Errorf("list machines of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	for _, machine := range machines {
		if driverschema.Stem(machine.Spec.InfrastructureRef.Kind) == driver {
			seen = seen.With(evidenceOf(machine))
		}
	}
	return seen, nil
}

// evidenceOf returns when the Job of a machine failed, or when its host became ready.
func evidenceOf(machine *clusterv1.Machine) (seen credentialjob.Evidence) {
	ready := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue:
		seen.Made = ready.LastTransitionTime.Time
	case ready.Reason == rkev1.ReasonCreateError, ready.Reason == rkev1.ReasonDeleteError:
		seen.Failed = ready.LastTransitionTime.Time
	}
	return seen
}
