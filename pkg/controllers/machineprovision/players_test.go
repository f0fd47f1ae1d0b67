package machineprovision_test

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// playJobs acts as the pod, the driver and the cloud.
func (w *world) playJobs() error {
	for _, found := range w.api.Objects(jobKind) {
		job := &batchv1.Job{}
		must(w.T, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, job))
		if w.hold || len(job.Status.Conditions) > 0 || job.DeletionTimestamp != nil || !w.starts(job) {
			continue
		}
		args := job.Spec.Template.Spec.Containers[0].Args
		instance := args[len(args)-1]
		if w.fail == "" {
			if err := w.playDriver(job, instance); err != nil {
				return err
			}
		}
		kind, message := batchv1.JobComplete, ""
		if w.fail != "" {
			kind, message = batchv1.JobFailed, w.fail
		}
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: kind, Status: corev1.ConditionTrue, Reason: "Told", Message: message,
			LastTransitionTime: metav1.Now(),
		}}
		if _, err := w.c.Batch.Job().UpdateStatus(job); err != nil {
			return err
		}
	}
	return nil
}

// starts reports whether the pod of a Job starts, with the rights of its driver. The kubelet waits for Secrets, and
// Kubernetes creates no pod without its account. A driver without rights fails, and Kubernetes starts it again.
func (w *world) starts(job *batchv1.Job) bool {
	pod := job.Spec.Template.Spec
	needs := []string{"ServiceAccount " + pod.ServiceAccountName, "Role " + pod.ServiceAccountName,
		"RoleBinding " + pod.ServiceAccountName}
	for _, volume := range pod.Volumes {
		needs = append(needs, "Secret "+volume.Secret.SecretName)
	}
	for _, from := range pod.Containers[0].EnvFrom {
		needs = append(needs, "Secret "+from.SecretRef.Name)
	}
	owned := w.owned()
	return !slices.ContainsFunc(needs, func(object string) bool { return !slices.Contains(owned, object) })
}

func (w *world) playDriver(job *batchv1.Job, instance string) error {
	secret, err := w.c.Core.Secret().Get(job.Namespace, instance+"-machine-state", metav1.GetOptions{})
	if err != nil {
		return err
	}
	given, err := w.c.Core.Secret().Get(job.Namespace, naming.MachineDriverSecret(instance), metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.given = append(w.given, string(given.Data["DIGITALOCEAN_ACCESS_TOKEN"]))
	state := machineState(instance)
	if job.Labels[rkev1.InfraRemoveLabel] == "true" {
		state = machineState("")
		w.removed[instance]++
		_ = w.nodes.CoreV1().Nodes().Delete(w.Context(), instance, metav1.DeleteOptions{})
	} else {
		w.made[instance]++
	}
	secret.Data = map[string][]byte{rkev1.MachineStateKey: state}
	_, err = w.c.Core.Secret().Update(secret)
	return err
}

// playMachines acts as Cluster API, and as the node of a created machine.
func (w *world) playMachines() error {
	for _, found := range w.api.Objects(clusterv1.GroupVersion.WithKind("Machine")) {
		machine := &clusterv1.Machine{}
		must(w.T, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, machine))
		play := w.playCreation
		if machine.DeletionTimestamp != nil {
			play = w.playDeletion
		}
		if err := play(machine); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) playCreation(machine *clusterv1.Machine) error {
	bootstrap, err := w.c.RKE.RKEBootstrap().Get(namespace, machine.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // addMember created it
	}
	if err != nil {
		return err
	}
	infra := w.machine(machine.Name)
	if infra == nil {
		return nil
	}
	if machine.Spec.Bootstrap.DataSecretName == nil && bootstrap.Status.DataSecretName != nil {
		machine.Spec.Bootstrap.DataSecretName = bootstrap.Status.DataSecretName
		_, err = w.c.CAPI.Machine().Update(machine)
		return err
	}
	if w.made[machine.Name] > 0 {
		if err := w.playAgent(machine); err != nil {
			return err
		}
		_, err := w.nodes.CoreV1().Nodes().Create(w.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: machine.Name, Labels: map[string]string{
				rkev1.MachineUIDLabel: string(machine.UID), "node-role.kubernetes.io/etcd": "true",
			}},
			Spec: corev1.NodeSpec{ProviderID: "k3s://" + machine.Name},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.9"}},
			},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	id, _, _ := unstructured.NestedString(infra.Object, "spec", "providerID")
	provisioned, _, _ := unstructured.NestedBool(infra.Object, "status", "initialization", "provisioned")
	if provisioned && machine.Spec.ProviderID != id {
		machine.Spec.ProviderID = id
		machine, err = w.c.CAPI.Machine().Update(machine)
		if err != nil {
			return err
		}
		machine.Status.NodeRef.Name = machine.Name
		_, err = w.c.CAPI.Machine().UpdateStatus(machine)
	}
	return err
}

// playAgent acts as the planner that delivers a plan, and as the machine's agent that carries it out.
func (w *world) playAgent(machine *clusterv1.Machine) error {
	found, err := w.c.Core.Secret().Get(namespace, naming.PlanSecret(machine.Name), metav1.GetOptions{})
	if err != nil || len(found.Data[nodeplan.KeyPlan]) > 0 {
		return err
	}
	found.Data = map[string][]byte{nodeplan.KeyPlan: []byte("{}"),
		nodeplan.KeyAppliedChecksum: []byte(nodeplan.Checksum([]byte("{}")))}
	_, err = w.c.Core.Secret().Update(found)
	return err
}

func (w *world) playDeletion(machine *clusterv1.Machine) error {
	if machine.Annotations[rkev1.PreTerminateAnnotation] != "" {
		return nil
	}
	if infra := w.machine(machine.Name); infra != nil {
		if infra.GetDeletionTimestamp() != nil {
			return nil
		}
		return w.infra.Delete(w.Context(), machine.Name, metav1.DeleteOptions{})
	}
	if err := w.c.RKE.RKEBootstrap().Delete(namespace, machine.Name, nil); !apierrors.IsNotFound(err) {
		return err
	}
	machine.Finalizers = nil
	_, err := w.c.CAPI.Machine().Update(machine)
	return err
}

// machine returns the infrastructure machine, nil if it does not exist.

// addMember adds a machine that works as an etcd member, and has no other role in the test.
func (w *world) addMember(name string) {
	w.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: "demo", rkev1.ClusterNameLabel: "demo",
		rkev1.EtcdRoleLabel: "true"}
	plan := []byte("{}")
	_, err := w.nodes.CoreV1().Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"node-role.kubernetes.io/etcd": "true"},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	must(w.T, w.api.Add(
		&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.PlanSecret(name)},
			Type:       rkev1.SecretTypeMachinePlan,
			Data: map[string][]byte{nodeplan.KeyPlan: plan,
				nodeplan.KeyAppliedChecksum: []byte(nodeplan.Checksum(plan))},
		},
		&clusterv1.Machine{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec: clusterv1.MachineSpec{
				ClusterName: "demo",
				Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: name}},
			},
			Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: name}},
		}))
}
