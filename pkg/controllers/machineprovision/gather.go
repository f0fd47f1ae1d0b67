package machineprovision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/admission"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// gather reads caches only. It returns false for machines of clusters of other instances.
func (h *handler) gather(obj *unstructured.Unstructured) (machinejob.Snapshot, bool, error) {
	machine, err := machineOf(obj)
	if err != nil {
		return machinejob.Snapshot{}, false, err
	}
	if _, moved := obj.GetAnnotations()[rkev1.DeleteForMoveAnnotation]; moved {
		return machinejob.Snapshot{}, false, nil // the host continues under another management cluster
	}
	s := machinejob.Snapshot{Machine: machine, Settings: h.Settings(), Now: h.Now()}
	capi, err := h.gatherCAPI(obj, &s)
	if err != nil {
		return s, false, err
	}
	cluster := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if capi != nil {
		cluster = capi.Spec.ClusterName
	}
	provisioning, err := clients.Optional(h.clusters.Get(machine.Namespace, cluster))
	if err != nil {
		return s, false, err
	}
	if provisioning != nil && !topology.IsOurs(provisioning, h.InstanceID) {
		return s, false, nil
	}
	if err := h.gatherCluster(&s, machine.Namespace, cluster, provisioning); err != nil {
		return s, false, err
	}
	if err := errors.Join(h.gatherDriver(&s), h.gatherState(&s), h.gatherPullSecrets(&s),
		h.gatherExtension(&s)); err != nil {
		return s, false, err
	}
	if known, err := h.gatherCredential(&s, orUnknown(provisioning, machine.Namespace, cluster)); err != nil || !known {
		return s, false, err // the answer wakes the machine
	}
	failed := h.backoff.of(obj, s.Credential)
	s.PoolFailures, s.PoolTurn, s.PoolCause = failed.count, failed.turn, failed.cause
	return s, true, h.gatherJobs(&s)
}

// orUnknown returns the cluster, or one with its name that grants no Secrets of other namespaces.
func orUnknown(cluster *provv1.Cluster, namespace, name string) *provv1.Cluster {
	if cluster == nil {
		return &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	return cluster
}

// machineOf decodes the object itself.
func machineOf(obj *unstructured.Unstructured) (machinejob.Machine, error) {
	spec, _, err := unstructured.NestedMap(obj.Object, "spec")
	if err != nil {
		return machinejob.Machine{}, fmt.Errorf("read spec of %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(),
			obj.GetName(), err)
	}
	status, err := statusOf(obj)
	if err != nil {
		return machinejob.Machine{}, err
	}
	annotations := obj.GetAnnotations()
	limit, _ := strconv.Atoi(annotations[rkev1.HostnameLengthLimitAnnotation]) // an invalid limit means no limit
	return machinejob.Machine{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		UID:  string(obj.GetUID()),
		Spec: spec, Status: status, HostnameLimit: limit, CAPIMachineName: obj.GetLabels()[rkev1.CAPIMachineNameLabel],
		Deleting: obj.GetDeletionTimestamp() != nil,
		Guarded:  slices.Contains(obj.GetFinalizers(), rkev1.MachineProvisionFinalizer),
		Paused:   topology.IsPaused(nil, obj), Forced: annotations[rkev1.ForceMachineRemoveAnnotation] == "true",
		Protection: annotations[rkev1.ProtectAnnotation],
	}, nil
}

func statusOf(obj *unstructured.Unstructured) (rkev1.RKEMachineStatus, error) {
	var status rkev1.RKEMachineStatus
	raw, err := json.Marshal(obj.Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		return status, fmt.Errorf("read status of %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	return status, nil
}

// gatherCAPI finds the Machine that owns the object. It also accepts a reference without the controller flag, because
// not every version of Cluster API sets it.
func (h *handler) gatherCAPI(obj *unstructured.Unstructured, s *machinejob.Snapshot) (*clusterv1.Machine, error) {
	name := topology.CAPIOwner(obj.GetOwnerReferences(), "Machine")
	if name == "" {
		return nil, nil
	}
	machine, err := clients.Optional(h.machines.Get(obj.GetNamespace(), name))
	if err != nil || machine == nil {
		return nil, err
	}
	s.CAPI = &machinejob.CAPIMachine{Name: machine.Name, Deleting: machine.DeletionTimestamp != nil,
		Protection: machine.Annotations[rkev1.ProtectAnnotation]}
	if secret := machine.Spec.Bootstrap.DataSecretName; secret != nil {
		s.CAPI.BootstrapSecret = *secret
	}
	ref := machine.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() || ref.Kind != "RKEBootstrap" {
		s.BootstrapReady = s.CAPI.BootstrapSecret != ""
		return machine, nil
	}
	bootstrap, err := clients.Optional(h.bootstraps.Get(machine.Namespace, ref.Name))
	if err != nil {
		return nil, err
	}
	s.BootstrapReady = bootstrap != nil && bootstrap.Status.DataSecretName != nil
	return machine, nil
}

// protects reports that the protection of its cluster must keep a host. Either the cluster is being deleted, or the
// Machine stays. A Machine that is deleted alone is scaled down, replaced or repaired.
func protects(cluster *provv1.Cluster, capi *clusterv1.Cluster, machine *machinejob.CAPIMachine) bool {
	if cluster == nil || !admission.Protected(cluster.Annotations) {
		return false
	}
	return cluster.DeletionTimestamp != nil || capi == nil || capi.DeletionTimestamp != nil || machine != nil &&
		!machine.Deleting
}

func (h *handler) gatherCluster(s *machinejob.Snapshot, namespace, name string, provisioning *provv1.Cluster) error {
	cluster, err := clients.Optional(h.capiClusters.Get(namespace, name))
	if err != nil {
		return err
	}
	s.Protected = protects(provisioning, cluster, s.CAPI)
	if cluster == nil {
		return nil
	}
	ready := cluster.Status.Initialization.InfrastructureProvisioned
	paused := topology.IsPaused(cluster)
	s.Cluster = &machinejob.ClusterState{
		Cluster: machinejob.Cluster{Name: name, ProvisioningName: name},
		Paused:  paused, InfrastructureReady: ready != nil && *ready,
		Kept: paused && cluster.Annotations[rkev1.PausedByOperationAnnotation] == "",
	}
	if provisioning != nil {
		s.Cluster.ManagementName = provisioning.Status.ClusterName
	}
	return nil
}

// gatherDriver finds the NodeDriver of the machine's kind, by its name or its display name.
func (h *handler) gatherDriver(s *machinejob.Snapshot) error {
	name, _ := driverschema.DriverOf(s.Machine.Kind)
	s.Driver.Name = name
	driver, err := h.driverNamed(name)
	if err != nil {
		return err
	}
	if driver == nil {
		s.DriverError = "NodeDriver " + name + " does not exist"
		return nil
	}
	aliases, err := driverschema.ParseAliases(driver.Annotations)
	switch {
	case err != nil:
		s.DriverError = "NodeDriver " + driver.Name + ": " + err.Error()
	case !driver.Spec.Active:
		s.DriverError = "NodeDriver " + driver.Name + " is not active"
	case !driverschema.IsLocal(driver.Spec.URL) && driver.Status.AppliedURL == "":
		s.DriverError = "NodeDriver " + driver.Name + " is not installed yet"
	}
	s.Driver.Aliases = aliases
	if !driverschema.IsLocal(driver.Spec.URL) {
		s.Driver.URL, s.Driver.SHA256 = driver.Status.AppliedURL,
			driver.Annotations[driverschema.DriverSHA256Annotation]
	}
	return nil
}

// driverNamed returns the NodeDriver of a driver, nil if there is none.
func (h *handler) driverNamed(name string) (*mgmtv3.NodeDriver, error) {
	driver, err := clients.Optional(h.nodeDrivers.Get(name))
	if err != nil || driver != nil && driver.Spec.Active {
		return driver, err
	}
	drivers, err := h.nodeDrivers.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list drivers: %w", err)
	}
	return driverschema.Named(drivers, name), nil
}

func (h *handler) gatherState(s *machinejob.Snapshot) error {
	state, err := clients.Optional(h.secrets.Get(s.Machine.Namespace, s.Machine.StateSecretName()))
	if err != nil {
		return err
	}
	if state != nil {
		content := state.Data[rkev1.MachineStateKey]
		s.State = machinejob.StateSecret{Exists: true, Written: len(content) > 0,
			Holds: machinejob.StateHolds(content), Unidentified: !machinejob.StateIdentifies(content)}
	}
	return nil
}

// gatherExtension reads whether the Role of the operator is or must be bound to the account of the machine's Jobs.
func (h *handler) gatherExtension(s *machinejob.Snapshot) error {
	if h.roles == nil {
		s.Extended = true
		return nil
	}
	role, err := clients.Optional(h.roles.Get(s.Machine.Namespace, machinejob.ExtensionRole))
	if err != nil {
		return err
	}
	binding, err := clients.Optional(h.bindings.Get(s.Machine.Namespace,
		naming.MachineProvisionExtension(s.Machine.Name)))
	s.Extended = role != nil || binding != nil
	return err
}

// gatherPullSecrets reads the Secrets with which the image is pulled. It omits Secrets that do not exist or have
// another type.
func (h *handler) gatherPullSecrets(s *machinejob.Snapshot) error {
	for _, key := range s.Settings.PullSecrets {
		secret, err := clients.Optional(h.secrets.Get(key.Namespace, key.Name))
		if err != nil {
			return err
		}
		if secret == nil || secret.Type != corev1.SecretTypeDockerConfigJson ||
			len(secret.Data[corev1.DockerConfigJsonKey]) == 0 {
			continue
		}
		if s.PullSecrets == nil {
			s.PullSecrets = map[types.NamespacedName][]byte{}
		}
		s.PullSecrets[key] = secret.Data[corev1.DockerConfigJsonKey]
	}
	return nil
}

// gatherCredential reads the credential if the cluster may use it. It returns false while that is unknown.
func (h *handler) gatherCredential(s *machinejob.Snapshot, cluster *provv1.Cluster) (known bool, err error) {
	namespace, name := topology.CredentialSecret(s.Machine.Namespace, s.Machine.CredentialReference())
	if name == "" {
		return true, nil
	}
	credential, err := clients.Optional(h.secrets.Get(namespace, name))
	if err != nil {
		return false, err
	}
	if !s.Machine.MayUseCredential() {
		var annotations map[string]string
		if credential != nil {
			annotations = credential.Annotations
		}
		switch verdict, because := h.Access.Check(cluster, types.NamespacedName{Namespace: namespace, Name: name},
			annotations); verdict {
		case access.Unknown:
			return false, nil
		case access.Denied:
			s.CredentialError, s.CredentialDenied = because, true
			return true, nil
		case access.Allowed:
		}
	}
	if credential == nil {
		s.CredentialError = "Secret " + namespace + "/" + name + ", the cloud credential of the machine, does not exist"
		return true, nil
	}
	s.Credential = credential.Data
	return true, nil
}

func (h *handler) gatherJobs(s *machinejob.Snapshot) error {
	jobs, err := h.jobs.GetByIndex(indexJobsByMachine, machineKey(s.Machine.Kind, s.Machine.Namespace, s.Machine.Name))
	if err != nil {
		return fmt.Errorf("list Jobs of the machine: %w", err)
	}
	s.Given = h.givenTo(s.Machine)
	var secrets *redact.Secrets
	for _, job := range jobs {
		if !belongsTo(job, s.Machine.UID) {
			continue // of an earlier machine with the same name
		}
		pods, err := h.pods.GetByIndex(indexPodsByJob, job.Namespace+"/"+job.Name)
		if err != nil {
			return fmt.Errorf("list pods of Job %s/%s: %w", job.Namespace, job.Name, err)
		}
		state := machinejob.Observe(job, pods)
		if state.Message != "" {
			if secrets == nil {
				secrets = h.secretsOf(s)
			}
			state.Message = redact.Text(secrets.Mask(state.Message))
		}
		if job.Labels[rkev1.InfraRemoveLabel] == "true" {
			if err := h.addRemoval(s, job, state); err != nil {
				return err
			}
		} else {
			s.Create = state
		}
	}
	slices.SortFunc(s.Removes, func(a, b machinejob.JobState) int { return cmp.Compare(a.Attempt, b.Attempt) })
	if s.Create.Phase == machinejob.PhaseAbsent {
		name := machinejob.CreateJobName(s.Machine.Name)
		pods, err := h.pods.GetByIndex(indexPodsByJob, s.Machine.Namespace+"/"+name)
		if err != nil {
			return fmt.Errorf("list pods of Job %s/%s: %w", s.Machine.Namespace, name, err)
		}
		s.Create = machinejob.ObservePods(name, pods)
	}
	return nil
}

func (h *handler) addRemoval(s *machinejob.Snapshot, job *batchv1.Job, state machinejob.JobState) error {
	s.Removes = append(s.Removes, state)
	if state.Phase != machinejob.PhaseRunning {
		return nil
	}
	lacks, err := h.lacks(s, job)
	s.Incomplete = s.Incomplete || lacks
	return err
}

// lacks reports whether caches lack an object that the pods of a Job need.
func (h *handler) lacks(s *machinejob.Snapshot, job *batchv1.Job) (bool, error) {
	var errs []error
	for _, name := range machinejob.PodSecrets(job) {
		_, err := h.secrets.Get(job.Namespace, name)
		errs = append(errs, err)
	}
	name := naming.MachineProvision(s.Machine.Name)
	if h.accounts != nil {
		_, err := h.accounts.Get(job.Namespace, name)
		errs = append(errs, err)
	}
	if h.roles != nil {
		_, role := h.roles.Get(job.Namespace, name)
		_, binding := h.bindings.Get(job.Namespace, name)
		errs = append(errs, role, binding)
		if s.Extended {
			_, err := h.bindings.Get(job.Namespace, naming.MachineProvisionExtension(s.Machine.Name))
			errs = append(errs, err)
		}
	}
	lacks := slices.ContainsFunc(errs, apierrors.IsNotFound)
	return lacks, errors.Join(slices.DeleteFunc(errs, apierrors.IsNotFound)...)
}

// givenTo returns the environment of the last Job of a machine, nil if its Secret does not exist.
func (h *handler) givenTo(machine machinejob.Machine) map[string][]byte {
	given, err := h.secrets.Get(machine.Namespace, naming.MachineDriverSecret(machine.Name))
	if err != nil {
		return nil
	}
	return given.Data
}

// secretsOf returns the secret values that a driver was given: those of the current credential and of its Job's
// credential. The driver may repeat them in an error, which conditions and Events show.
func (h *handler) secretsOf(s *machinejob.Snapshot) *redact.Secrets {
	known := &redact.Secrets{}
	known.AddData(s.Credential)
	known.AddData(h.givenTo(s.Machine))
	for field, value := range s.Machine.Spec {
		if text, ok := value.(string); ok && redact.Named(field) {
			known.AddText(text)
		}
	}
	return known
}

func belongsTo(object metav1.Object, uid string) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return string(owner.UID) == uid
	})
}
