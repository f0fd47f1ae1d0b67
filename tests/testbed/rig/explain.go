package rig

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Explain describes the step of each machine of a cluster, with the end of its last output. That is the output of the
// instruction that failed, or the console of a machine that has not reported. It adds the logs of the pods that create
// and remove machines.
func (r *Rig) Explain(ctx context.Context, cluster string) string {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	var out strings.Builder
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return err.Error()
	}
	clients, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		return err.Error()
	}
	if object, err := objects.Resource(clusters).Namespace(clusterNamespace).Get(ctx, cluster,
		metav1.GetOptions{}); err == nil {
		explainConditions(&out, "cluster "+cluster, object)
	}
	list, err := machinesOf(ctx, objects, cluster)
	if err != nil {
		fmt.Fprintf(&out, "machines: %v\n", err)
	}
	plans, err := plansOf(ctx, clients)
	if err != nil {
		fmt.Fprintf(&out, "plans: %v\n", err)
	}
	for _, machine := range list {
		out.WriteString(explainMachine(machineFacts{Machine: machine, Plan: plans[machine.GetName()],
			Console: r.console(machine)}))
	}
	explainPods(ctx, clients, &out)
	return out.String()
}

// plansOf returns the plan Secrets by the name of their Machine.
func plansOf(ctx context.Context, clients kubernetes.Interface) (map[string]*corev1.Secret, error) {
	selector := fields.OneTermEqualSelector("type", string(rkev1.SecretTypeMachinePlan)).String()
	list, err := clients.CoreV1().Secrets(clusterNamespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	plans := map[string]*corev1.Secret{}
	for i := range list.Items {
		plans[list.Items[i].Labels[rkev1.MachineNameLabel]] = &list.Items[i]
	}
	return plans, nil
}

// console returns a machine's console output. The cloud knows the machine by the name of its infrastructure machine.
func (r *Rig) console(machine unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(machine.Object, "spec", "infrastructureRef", "name")
	if r.Lab == nil || name == "" {
		return ""
	}
	text, err := r.Lab.Console(naming.Instance(name))
	if err != nil {
		return ""
	}
	return string(text)
}

func explainConditions(out *strings.Builder, what string, object *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["status"] != "True" && c["message"] != nil && c["message"] != "" {
			fmt.Fprintf(out, "%s: %v is %v: %v\n", what, c["type"], c["status"], c["message"])
		}
	}
}

// explainPods adds the end of the output of failed and running pods.
func explainPods(ctx context.Context, clients kubernetes.Interface, out *strings.Builder) {
	pods, err := clients.CoreV1().Pods(clusterNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(out, "pods: %v\n", err)
		return
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodSucceeded {
			out.WriteString(podOutput(ctx, clients, &pod))
		}
	}
}

// podOutput returns the end of a pod's output, below a line that names the pod.
func podOutput(ctx context.Context, clients kubernetes.Interface, pod *corev1.Pod) string {
	lines := int64(mostLines)
	log, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(
		ctx)
	if err != nil {
		log = []byte(err.Error())
	}
	return fmt.Sprintf("pod %s (%s):\n%s\n", pod.Name, cmp.Or(string(pod.Status.Phase), "unknown"),
		lastLines(string(log)))
}
