package backup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestMove moves clusters, including protected ones, with the stock clusterctl to another management cluster. A Drover
// runs in each.
func TestMove(t *testing.T) {
	first := stage.Start(t, stage.Settings{InstanceID: "first"})
	namespace := "moved"
	first.Namespace(namespace)
	clusters := first.Apply(namespace, 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	// The second Drover must accept fields and creators that it would reject on a new Cluster.
	first.Edit(namespace, "k3s", func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].UnhealthyRange = new("[5-3]")
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, provv1.CreatorIDAnnotation, "alice")
	})
	first.End()
	first = stage.Start(t, stage.Settings{World: first.World, InstanceID: "first", Admission: true})
	protect(t, first, namespace, "rke2")
	stage.AwaitQuiet(t, time.Minute)
	made := recordOf(t, first, namespace)
	other := plane.Another(t)
	second := stage.Start(t, stage.Settings{Plane: other, InstanceID: "second", Admission: true})
	awaitReviews(t, second)

	letGo(t, first, namespace, "rke2")
	letGo(t, first, namespace, "k3s")
	begin := time.Now()
	move(t, namespace, asPerson(t, plane.Kubeconfig(t)), other)
	time.Sleep(15 * time.Second) // the first Drover would react to the loss within this time
	for _, write := range plane.Writes(t, stage.DroverAgent, begin) {
		if write.Namespace == namespace && (write.Resource == "jobs" || write.Verb == "create") {
			t.Errorf("the first Drover acts on moved clusters: %+v", write)
		}
	}
	if left := recordOf(t, first, namespace); len(left.Machines)+len(left.Plans) > 0 {
		t.Errorf("remaining objects: %v and %v", left.Machines, left.Plans)
	} else if diff := cmp.Diff(made.Hosts, left.Hosts); diff != "" {
		t.Errorf("hosts (-before +after):\n%s", diff)
	}
	for _, write := range writes(t, other, namespace, begin) {
		if write.UserAgent == stage.DroverAgent || write.Resource == "jobs" {
			t.Errorf("the second Drover acts on clusters before their adoption: %+v", write)
		}
	}
	moved := &provv1.Cluster{}
	check(t, second.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "k3s"}, moved))
	if by := moved.Annotations[provv1.CreatorIDAnnotation]; by != "alice" {
		t.Errorf("the creator of alice's cluster is %q", by)
	}
	first.End()
	second.End()

	third := stage.Start(t, stage.Settings{Plane: other, World: first.World, InstanceID: "second", Admission: true})
	take(t, third, namespace, "rke2")
	take(t, third, namespace, "k3s")
	third.Edit(namespace, "rke2", func(c *provv1.Cluster) {
		if c.Annotations[rkev1.ProtectAnnotation] != "true" {
			t.Errorf("the cluster has lost its protection: %v", c.Annotations)
		}
		delete(c.Annotations, rkev1.ProtectAnnotation)
	})
	manages(t, third, namespace, made, clusters.On(third))
}

// protect protects a cluster and waits until the policies apply.
func protect(t *testing.T, st *stage.Stage, namespace, name string) {
	t.Helper()
	st.Edit(namespace, name, func(c *provv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, rkev1.ProtectAnnotation, "true")
	})
	core := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	plane.Until(t, time.Minute, func() string {
		if err := st.Client.Delete(t.Context(), core, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the deletion of a part of protected cluster %s returns %v", name, err)
		}
		return ""
	})
}

// awaitReviews waits until the API server calls the webhooks of a stage's Drover, which takes a moment after their
// registration.
func awaitReviews(t *testing.T, st *stage.Stage) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		right := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "right"}}
		if check(t, st.Client.Create(t.Context(), right,
			client.DryRunAll)); right.Annotations[provv1.CreatorIDAnnotation] == "" {
			return "a new Cluster gets no creator"
		}
		wrong := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "wrong"}}
		wrong.Spec.KubernetesVersion, wrong.Spec.RKEConfig = "none", &provv1.RKEConfig{}
		if err := st.Client.Create(t.Context(), wrong, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Sprintf("a Cluster without a version returns %v", err)
		}
		return ""
	})
}

// asPerson returns a kubeconfig of an administrator that is not one of the programs that may delete parts of protected
// clusters.
func asPerson(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	check(t, err)
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "alice", []string{"system:masters", "system:authenticated"}
	}
	path := filepath.Join(t.TempDir(), "alice.yaml")
	check(t, clientcmd.WriteToFile(*config, path))
	return path
}

// letGo makes the Drover of a stage release a cluster.
func letGo(t *testing.T, st *stage.Stage, namespace, name string) {
	t.Helper()
	c, err := clients.New(st.Config("tester"), clients.Options{Version: "test", WithoutDynamic: true})
	check(t, err)
	defer c.Stop()
	cluster := &provv1.Cluster{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster))
	_, err = adopt.Release(c, cluster, true)
	check(t, err)
}

func move(t *testing.T, namespace, from string, to *managementplane.Plane) {
	t.Helper()
	clusterctl, err := plane.Binary("clusterctl")
	check(t, err)
	cmd := exec.CommandContext(t.Context(), clusterctl, "move", "--namespace="+namespace, "--kubeconfig="+from,
		"--to-kubeconfig="+to.Kubeconfig(), "-v=1")
	// Do not ask the internet for a newer clusterctl.
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("clusterctl move:\n%s", out)
	check(t, err)
}
