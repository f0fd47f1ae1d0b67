package autoscaler

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

const (
	name       = "scaled"
	deployment = name + "-auto"
	image      = "registry.example.com/cluster-autoscaler:v{minor}.1"
)

// world is a cluster with a pool of 0 to 3 machines, next to another cluster.
type world struct {
	*testing.T
	st        *stage.Stage
	namespace string
	inside    kubernetes.Interface
	// config has the autoscaler's own credential at Drover's server.
	config *rest.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st := stage.Start(t, stage.Settings{ClusterAutoscalerImage: image})
	w := &world{T: t, st: st, namespace: plane.Namespace(t)}
	pool := stage.Pool("auto", "w", 0)
	pool.AutoscalingMinSize, pool.AutoscalingMaxSize = new(int32(0)), new(int32(3))
	pool.Labels = map[string]string{"example.com/size": "small"}
	pool.MachineDeploymentAnnotations = map[string]string{
		"capacity.cluster-autoscaler.kubernetes.io/cpu":    "2",
		"capacity.cluster-autoscaler.kubernetes.io/memory": "4Gi",
	}
	w.st.Cluster(w.namespace, name, stage.K3s, stage.Pool("server", "ecw", 1), pool)
	w.st.Cluster(w.namespace, "other", stage.K3s, stage.Pool("server", "ecw", 1))
	for _, cluster := range []string{name, "other"} {
		plane.Until(t, 4*time.Minute, func() string { return st.WaitingFor(w.namespace, cluster) })
	}
	w.inside = st.World.Downstream(w.namespace, name)
	w.config = w.credential()
	return w
}

// credential reads the kubeconfig and the token of the autoscaler.
func (w *world) credential() *rest.Config {
	w.Helper()
	found := &corev1.Secret{}
	plane.Until(w, time.Minute, func() string {
		list := &corev1.SecretList{}
		if err := w.st.Client.List(w.Context(), list, client.InNamespace(w.namespace),
			client.MatchingLabels{provv1.KubeconfigTypeLabel: "autoscaler"}); err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 || len(list.Items[0].Data["token"]) == 0 {
			return fmt.Sprintf("there are %d kubeconfigs of autoscalers", len(list.Items))
		}
		found = &list.Items[0]
		return ""
	})
	parsed, err := clientcmd.Load(found.Data["value"])
	w.must(err)
	for _, user := range parsed.AuthInfos {
		if user.Token != "" || user.TokenFile == "" {
			w.Error("the kubeconfig must name a file with the token, which is renewed")
		}
		user.TokenFile, user.Token = "", string(found.Data["token"])
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, nil).ClientConfig()
	w.must(err)
	config.QPS = -1
	return config
}

// machines returns the machines of the pool that are not being deleted and have a node, sorted.
func (w *world) machines() []string {
	w.Helper()
	list := &clusterv1.MachineList{}
	w.must(w.st.Client.List(w.Context(), list, client.InNamespace(w.namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: deployment}))
	names := map[string]bool{}
	for _, machine := range list.Items {
		if machine.DeletionTimestamp == nil && machine.Status.NodeRef.Name != "" {
			names[machine.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// await waits until the pool has so many machines, with nodes.
func (w *world) await(machines int) {
	w.Helper()
	plane.Until(w, 4*time.Minute, func() string {
		found := &clusterv1.MachineDeployment{}
		if err := w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: deployment},
			found); err != nil {
			return err.Error()
		}
		have := w.machines()
		if *found.Spec.Replicas != int32(machines) || len(have) != machines ||
			found.Status.Replicas == nil || *found.Status.Replicas != int32(machines) {
			return fmt.Sprintf("the pool wants %d machines and has %d: %s", *found.Spec.Replicas, len(have),
				strings.Join(have, ", "))
		}
		return ""
	})
}

// awaitDeployed plays the controllers of the cluster, and waits until the condition follows.
func (w *world) awaitDeployed() {
	w.Helper()
	deployments := w.inside.AppsV1().Deployments(metav1.NamespaceSystem)
	plane.Until(w, time.Minute, func() string {
		found, err := deployments.Get(w.Context(), "drover-cluster-autoscaler", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		got := found.Spec.Template.Spec.Containers[0].Image
		if got != "registry.example.com/cluster-autoscaler:v1.36.1" {
			w.Errorf("the image is %s", got)
		}
		found.Status.ObservedGeneration, found.Status.AvailableReplicas = found.Generation, 1
		_, err = deployments.UpdateStatus(w.Context(), found, metav1.UpdateOptions{})
		if err != nil {
			return err.Error()
		}
		_, err = w.inside.CoreV1().Secrets(metav1.NamespaceSystem).Get(w.Context(), "mgmt-kubeconfig",
			metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	plane.Until(w, time.Minute, func() string {
		cluster := &provv1.Cluster{}
		if err := w.st.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name},
			cluster); err != nil {
			return err.Error()
		}
		c := stage.Condition(cluster.Status.Conditions, "ClusterAutoscalerDeploymentReady")
		if c.Status != "True" || c.Message != "" {
			return fmt.Sprintf("the condition is %s %s %s", c.Status, c.Reason, c.Message)
		}
		return ""
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
