package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/operate/diagnose"
)

// credentials reads the cloud credentials that the Cluster and its pools name.
func (g *gatherer) credentials() error {
	fields := map[string]string{"spec.cloudCredentialSecretName": g.w.Cluster.Spec.CloudCredentialSecretName}
	if g.w.Cluster.Spec.RKEConfig != nil {
		for i, pool := range g.w.Cluster.Spec.RKEConfig.MachinePools {
			fields[fmt.Sprintf("spec.rkeConfig.machinePools[%d].cloudCredentialSecretName",
				i)] = pool.CloudCredentialSecretName
		}
	}
	for field, reference := range fields {
		namespace, name := topology.CredentialSecret(g.namespace, reference)
		if name == "" {
			continue
		}
		var secret *corev1.Secret
		err := one(g, "credentials", &secret, func() (*corev1.Secret, error) {
			return g.plans.Secrets.Cache().Get(namespace, name)
		})
		if err != nil {
			return err
		}
		if secret != nil {
			g.w.Secrets.AddData(secret.Data)
		}
		g.w.Credentials = append(g.w.Credentials, diagnose.Credential{Reference: reference, Field: field,
			Exists: secret != nil})
	}
	slices.SortFunc(g.w.Credentials, func(a, b diagnose.Credential) int { return strings.Compare(a.Field, b.Field) })
	return nil
}

// configSuffix ends the kinds of machine configs.
const configSuffix = "Config"

// drivers reads the node drivers that the pools need, and finds missing kinds of other infrastructure providers.
func (g *gatherer) drivers() error {
	if g.w.Cluster.Spec.RKEConfig == nil {
		return nil
	}
	for _, kind := range topology.ProviderKinds(g.w.Cluster) {
		served, err := g.serves(kind)
		if err != nil {
			return err
		}
		if !served {
			g.w.MissingProviders = append(g.w.MissingProviders, kind.String())
		}
	}
	bases := driverKinds(g.w.Cluster.Spec.RKEConfig.MachinePools)
	if len(bases) == 0 {
		return nil
	}
	list, err := g.clients.Management.NodeDriver().List(metav1.ListOptions{})
	if err != nil {
		return g.may("nodedrivers", err)
	}
	drivers := make([]*mgmtv3.NodeDriver, 0, len(list.Items))
	for i := range list.Items {
		drivers = append(drivers, &list.Items[i])
	}
	for base := range bases {
		name := strings.ToLower(base)
		driver := diagnose.Driver{Name: name, Driver: driverschema.Named(drivers, name)}
		for groupVersion, kind := range map[string]string{driverschema.ConfigGroup + "/v1": base + configSuffix,
			driverschema.MachineGroup + "/v1": base + "Machine"} {
			served, err := g.kinds(groupVersion)
			if err == nil && !served[kind] {
				driver.MissingKinds = append(driver.MissingKinds, kind)
			}
		}
		slices.Sort(driver.MissingKinds)
		g.w.Drivers = append(g.w.Drivers, driver)
	}
	slices.SortFunc(g.w.Drivers, func(a, b diagnose.Driver) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// driverKinds returns the prefixes of the pools' machine config kinds. Pools of other providers need no driver.
func driverKinds(pools []provv1.RKEMachinePool) map[string]bool {
	bases := map[string]bool{}
	for _, pool := range pools {
		if pool.NodeConfig == nil || pool.NodeConfig.APIVersion != "" &&
			pool.NodeConfig.GroupVersionKind().Group != driverschema.ConfigGroup {
			continue
		}
		if base, ok := strings.CutSuffix(pool.NodeConfig.Kind, configSuffix); ok && base != "" {
			bases[base] = true
		}
	}
	return bases
}

// machines reads the Machines of the cluster with their parts.
func (g *gatherer) machines() error {
	of := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: g.w.Name})
	machines, err := g.plans.Machines.Cache().List(g.namespace, of)
	if err != nil {
		return g.may("machines", err)
	}
	slices.SortFunc(machines, func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	jobs, err := g.clients.Batch.Job().List(g.namespace, metav1.ListOptions{})
	if err := g.may("jobs", err); err != nil {
		return err
	}
	pods, err := g.clients.Core.Pod().List(g.namespace, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
	if err := g.may("pods", err); err != nil {
		return err
	}
	for _, machine := range machines {
		m := diagnose.Machine{Machine: machine}
		if err := g.parts(&m); err != nil {
			return err
		}
		if jobs != nil && m.Host != nil {
			m.Job = jobOf(jobs.Items, m.Host)
		}
		if pods != nil && m.Job != nil {
			m.Pods = podsOf(pods.Items, m.Job)
		}
		g.w.Machines = append(g.w.Machines, m)
	}
	return nil
}

// parts reads what belongs to a machine.
func (g *gatherer) parts(m *diagnose.Machine) error {
	for i := range g.known {
		if g.known[i].Name == m.Name {
			m.Known = &g.known[i]
		}
	}
	if g.w.Decision != nil {
		at := slices.IndexFunc(g.w.Decision.Machines, func(e planner.ExplainedMachine) bool { return e.Name == m.Name })
		if at >= 0 {
			m.Explained = &g.w.Decision.Machines[at]
		}
	}
	if err := g.host(m); err != nil {
		return err
	}
	ref := m.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" {
		return nil
	}
	err := one(g, "rkebootstraps", &m.Bootstrap, func() (*rkev1.RKEBootstrap, error) {
		return g.plans.Bootstraps.Cache().Get(m.Namespace, ref.Name)
	})
	if err != nil {
		return err
	}
	var token *corev1.Secret
	name := naming.SafeConcat(naming.BootstrapSecret(ref.Name), "token")
	err = one(g, "secrets", &token, func() (*corev1.Secret, error) {
		return g.plans.Secrets.Cache().Get(m.Namespace, name)
	})
	if err == nil && token != nil {
		// It stays zero if the annotation is unreadable.
		m.TokenUsed, _ = time.Parse(time.RFC3339, token.Annotations[rkev1.LastAccessAnnotation])
		g.w.Secrets.AddData(token.Data)
	}
	return err
}

// host reads the infrastructure machine.
func (g *gatherer) host(m *diagnose.Machine) error {
	ref := m.Spec.InfrastructureRef
	resource, err := g.resource(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil || resource.Resource == "" {
		return err
	}
	object, err := g.live.Resource(resource).Namespace(m.Namespace).Get(g.ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return g.may("machines of drivers", err)
	}
	m.Host, err = hostOf(object, ref.APIGroup == driverschema.MachineGroup)
	return err
}

func hostOf(object *unstructured.Unstructured, driven bool) (*diagnose.Host, error) {
	host := &diagnose.Host{Kind: object.GetKind(), Driven: driven, ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		Annotations: object.GetAnnotations(), Finalizers: object.GetFinalizers(),
		CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
	}}
	host.ProviderID, _, _ = unstructured.NestedString(object.Object, "spec", "providerID") // may be empty
	if !driven {
		return host, nil // other providers have another status
	}
	raw, err := json.Marshal(object.Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &host.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("read status of %s %s/%s: %w", host.Kind, host.Namespace, host.Name, err)
	}
	return host, nil
}

// jobOf returns the newest relevant Job of a host. While the host is being removed, that is a Job that removes it.
// Otherwise it is a Job that creates it.
func jobOf(jobs []batchv1.Job, host *diagnose.Host) *batchv1.Job {
	var found *batchv1.Job
	for i := range jobs {
		job := &jobs[i]
		owned := slices.ContainsFunc(job.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.UID == host.UID
		})
		removes := job.Labels[rkev1.InfraRemoveLabel] == "true"
		if !owned || removes != (host.DeletionTimestamp != nil) {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&job.CreationTimestamp) {
			found = job
		}
	}
	return found
}

func podsOf(pods []corev1.Pod, job *batchv1.Job) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		if pods[i].Labels[batchv1.JobNameLabel] == job.Name {
			out = append(out, &pods[i])
		}
	}
	return out
}

// events reads the warnings in the namespace. The diagnosis selects those about the cluster's objects.
func (g *gatherer) events() error {
	list, err := g.clients.Kubernetes.CoreV1().Events(g.namespace).List(g.ctx,
		metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		return g.may("events", err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Type != corev1.EventTypeWarning {
			continue
		}
		last := cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
		g.w.Events = append(g.w.Events, diagnose.Event{Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name,
			Reason: e.Reason, Message: e.Message, Last: last})
	}
	return nil
}
