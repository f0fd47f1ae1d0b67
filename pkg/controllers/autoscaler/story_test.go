package autoscaler_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/autoscaler"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	id       = "c-m-12345678"
	instance = "instance-1"
	fleet    = "fleet-default"
	agent    = "drover/test"
	inside   = "drover"
	account  = "fleet-default-demo-autoscaler"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller, and a cluster.
type world struct {
	*testing.T
	api, cluster *memkube.Server
	user, admin  client.Client
	issued       int
	// serverURL is the address of Drover's server, and stop ends the controller.
	serverURL string
	stop      func()
}

// tell runs a test in virtual time, with a cluster whose pool has sizes.
func tell(t *testing.T, image string, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, serverURL: "https://drover.example.com"}
		w.api = memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{fleet},
			Permit: rights.Permit(t, agent)})
		w.cluster = memkube.New(memkube.Options{})
		w.user, err = client.New(w.api.Config("user"), client.Options{Scheme: scheme})
		must(t, err)
		w.admin, err = client.New(w.cluster.Config("administrator"), client.Options{})
		must(t, err)
		management := &mgmtv3.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Name: id},
		}
		conditions.Set(&management.Status.Conditions, conditions.Condition{Type: mgmtv3.ClusterConditionConnected,
			Status: rkev1.ConditionTrue}, time.Now())
		must(t, w.api.Add(management, &provv1.Cluster{
			TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo",
				Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
			Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{
				MachinePools: []provv1.RKEMachinePool{{Name: "auto", WorkerRole: true,
					NodeConfig:         &corev1.ObjectReference{Kind: "SimConfig", Name: "demo"},
					AutoscalingMinSize: new(int32(1)), AutoscalingMaxSize: new(int32(3))}}}},
			Status: provv1.ClusterStatus{ClusterName: id},
		}))
		w.start(image)
		defer func() { w.stop() }()
		w.elapse(5 * time.Second)
		f(w)
	})
}

func (w *world) start(image string) {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	log := logrus.New()
	log.SetOutput(w.Output())
	must(w.T, autoscaler.Register(c.HandlerContext(), autoscaler.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(), Machines: c.CAPI.Machine(),
		MachineDeployments: c.CAPI.MachineDeployment(), Secrets: c.Core.Secret(),
		ServiceAccounts: c.Core.ServiceAccount(), Roles: c.RBAC.Role(), Apply: c.Apply, Issue: w.issue, Downstream: w,
		InstanceID: instance, Log: log,
		Settings: autoscaler.Settings{Image: image, ServerURL: w.serverURL},
	}))
	workers, cancel := context.WithCancel(w.Context())
	must(w.T, c.Start(workers))
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

// issue returns a token as an API server would, which contains the UID of the account.
func (w *world) issue(_ context.Context, of types.NamespacedName, life time.Duration) (string, error) {
	found := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}}
	if !w.get(w.api, found) {
		return "", fmt.Errorf("no account %s", of)
	}
	w.issued++
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":%q}}}`, time.Now().Unix(),
		time.Now().Add(life).Unix(), found.UID)
	return fmt.Sprintf("a%d.%s.c", w.issued, base64.RawURLEncoding.EncodeToString([]byte(claims))), nil
}

// Client implements proxy.ClientGetter.
func (w *world) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(w.cluster.Config(inside))
}

func (w *world) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) get(from *memkube.Server, into client.Object) bool {
	w.Helper()
	exists, err := from.Get(into)
	must(w.T, err)
	return exists
}

func (w *world) kubeconfig() *corev1.Secret {
	w.Helper()
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: account + "-kubeconfig"}}
	if !w.get(w.api, found) {
		return nil
	}
	return found
}

func (w *world) deployment() *appsv1.Deployment {
	w.Helper()
	found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: autoscaling.Namespace,
		Name: autoscaling.ProgramName}}
	if !w.get(w.cluster, found) {
		return nil
	}
	return found
}

func (w *world) condition() string {
	w.Helper()
	found := w.demo()
	if c := conditions.Get(found.Status.Conditions, "ClusterAutoscalerDeploymentReady"); c != nil {
		return strings.TrimSpace(c.Status + " " + c.Reason + " " + c.Message)
	}
	return ""
}

func (w *world) demo() *provv1.Cluster {
	w.Helper()
	found := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo"}}
	w.get(w.api, found)
	return found
}

// edit changes the Cluster as its user does.
func (w *world) edit(change func(*provv1.Cluster)) {
	w.Helper()
	found := w.demo()
	change(found)
	must(w.T, w.user.Update(w.Context(), found))
	w.elapse(30 * time.Second)
}

// quiet fails if the controller writes anything within d.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.cluster.ResetLog()
	w.elapse(d)
	if writes := append(w.api.Writes(agent), w.cluster.Writes(inside)...); len(writes) > 0 {
		w.Errorf("writes in %s without changes: %v", d, writes)
	}
}

// The account comes, follows the machines, and ends with the sizes. Its token is renewed in time, and otherwise nothing
// is written.
func TestStory_TheAccountFollowsThePool(t *testing.T) {
	tell(t, "", func(w *world) {
		first := w.kubeconfig()
		if first == nil || first.Annotations[provv1.SyncAnnotation] != "" || w.condition() != "" {
			t.Fatalf("kubeconfig %v, condition %q", first != nil, w.condition())
		}
		w.quiet(3 * 24 * time.Hour)
		w.elapse(24 * time.Hour)
		renewed := w.kubeconfig()
		former := string(first.Data[autoscaling.KeyToken])
		if w.issued != 2 || string(renewed.Data[autoscaling.KeyToken]) == former ||
			renewed.Annotations[autoscaling.FormerTokenAnnotation] != naming.SHA256(former) {
			t.Errorf("after half of its lifetime, %d tokens were issued: %v", w.issued, renewed.Annotations)
		}

		machine := &clusterv1.Machine{
			TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo-auto-x", Labels: map[string]string{
				clusterv1.ClusterNameLabel: "demo", clusterv1.MachineDeploymentNameLabel: "demo-auto"}},
			Spec: clusterv1.MachineSpec{ClusterName: "demo"},
		}
		must(t, w.api.Add(machine))
		w.elapse(5 * time.Second)
		if !autoscaling.PermitsMachine(w.role(), "demo-auto-x") {
			t.Error("the account may not mark a new machine")
		}
		w.quiet(time.Hour)
		must(t, w.user.Delete(w.Context(), machine))
		w.elapse(5 * time.Second)
		if autoscaling.PermitsMachine(w.role(), "demo-auto-x") {
			t.Error("the role names a machine that is gone")
		}

		w.edit(func(c *provv1.Cluster) {
			pool := &c.Spec.RKEConfig.MachinePools[0]
			pool.AutoscalingMinSize, pool.AutoscalingMaxSize = nil, nil
		})
		gone := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: account}}
		if w.get(w.api, gone) || w.kubeconfig() != nil {
			t.Error("the account stays after its sizes")
		}
		w.quiet(time.Hour)
		if writes := w.cluster.Writes(inside); len(writes) > 0 {
			t.Errorf("without an image, Drover writes to the cluster: %v", writes)
		}
	})
}

func (w *world) role() *rbacv1.Role {
	w.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: account}}
	w.get(w.api, role)
	return role
}

// The pools of two clusters can have one name, and then the MachineDeployment belongs to one of them. The account may
// scale only a MachineDeployment of its own cluster.
func TestStory_TheAccountScalesNoPoolOfAnotherCluster(t *testing.T) {
	tell(t, "", func(w *world) {
		deployment := func(cluster string) *clusterv1.MachineDeployment {
			return &clusterv1.MachineDeployment{
				TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo-auto", Labels: map[string]string{
					clusterv1.ClusterNameLabel: cluster}},
				Spec: clusterv1.MachineDeploymentSpec{ClusterName: cluster},
			}
		}
		for _, c := range []struct {
			cluster string
			want    bool
		}{{"other", false}, {"demo", true}, {"other", false}} {
			found := deployment(c.cluster)
			must(t, w.api.Add(found))
			w.elapse(5 * time.Second)
			for range 2 { // also in a later pass
				if got := autoscaling.PermitsDeployment(w.role(), "demo-auto"); got != c.want {
					t.Errorf("the account may scale the MachineDeployment of cluster %s: %t", c.cluster, got)
				}
				w.edit(func(demo *provv1.Cluster) {
					metav1.SetMetaDataAnnotation(&demo.ObjectMeta, "edited", time.Now().String())
				})
			}
			must(t, w.user.Delete(w.Context(), found))
			w.elapse(5 * time.Second)
			if autoscaling.PermitsDeployment(w.role(), "demo-auto") {
				t.Error("the account may scale a MachineDeployment that is gone")
			}
		}
		w.quiet(time.Hour)
	})
}

// With an image, the Deployment comes, is paused, and ends with the sizes. The condition follows.
func TestStory_TheDeploymentFollowsTheCluster(t *testing.T) {
	const image = "example.com/ca:v{minor}.1"
	tell(t, image, func(w *world) {
		w.elapse(20 * time.Second)
		found := w.deployment()
		if found == nil || found.Spec.Template.Spec.Containers[0].Image != "example.com/ca:v1.36.1" {
			t.Fatalf("deployment %v", found)
		}
		if got := w.condition(); !strings.Contains(got, autoscaling.ReasonNotAvailable) {
			t.Errorf("condition %q", got)
		}
		if w.kubeconfig().Annotations[provv1.SyncTargetNameAnnotation] != "mgmt-kubeconfig" {
			t.Error("the kubeconfig is not copied into the cluster")
		}
		found.Status.ObservedGeneration, found.Status.AvailableReplicas = found.Generation, 1
		must(t, w.admin.Status().Update(w.Context(), found))
		w.elapse(30 * time.Second)
		if got := w.condition(); got != "True" {
			t.Errorf("condition %q of an available autoscaler", got)
		}
		w.quiet(3 * time.Hour)
		w.stop()
		w.start(image)
		w.quiet(time.Hour)

		w.edit(func(c *provv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, provv1.ClusterAutoscalerPausedAnnotation, "true")
		})
		if found = w.deployment(); *found.Spec.Replicas != 0 {
			t.Errorf("a paused autoscaler has %d replicas", *found.Spec.Replicas)
		}
		w.edit(func(c *provv1.Cluster) {
			pool := &c.Spec.RKEConfig.MachinePools[0]
			pool.AutoscalingMinSize, pool.AutoscalingMaxSize = nil, nil
		})
		if w.deployment() != nil || w.condition() != "" {
			t.Errorf("after the sizes, the cluster has an autoscaler: %t; condition %q", w.deployment() != nil,
				w.condition())
		}
		w.quiet(time.Hour)
	})
}

// An autoscaler reads its kubeconfig only when it starts. It starts again with a new one, after that is in the cluster.
func TestStory_TheAutoscalerFollowsTheAddressOfTheServer(t *testing.T) {
	const image = "example.com/ca:v1"
	tell(t, image, func(w *world) {
		copied := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: autoscaling.CopyNamespace, Name: autoscaling.CopyName},
			Data:       w.kubeconfig().Data}
		must(t, w.admin.Create(w.Context(), copied))
		w.elapse(20 * time.Second)
		first := w.deployment().Spec.Template

		w.stop()
		w.serverURL = "https://moved.example.com"
		w.start(image)
		w.elapse(30 * time.Second)
		if got := w.deployment().Spec.Template; !equality.Semantic.DeepEqual(got, first) {
			t.Error("the autoscaler starts again before it has the new kubeconfig")
		}
		if got := w.condition(); !strings.Contains(got, autoscaling.CopyName) {
			t.Errorf("condition %q", got)
		}
		copied.Data = w.kubeconfig().Data
		if !strings.Contains(string(copied.Data[autoscaling.KeyKubeconfig]), w.serverURL) {
			t.Errorf("kubeconfig %s", copied.Data[autoscaling.KeyKubeconfig])
		}
		must(t, w.admin.Update(w.Context(), copied))
		w.elapse(30 * time.Second)
		if got := w.deployment().Spec.Template; equality.Semantic.DeepEqual(got, first) {
			t.Error("the autoscaler keeps the former kubeconfig")
		}
	})
}

// Objects of others stay, and the condition names them.
func TestStory_ForeignObjectsStay(t *testing.T) {
	tell(t, "", func(w *world) {
		sizes := func(smallest, largest *int32) {
			w.edit(func(c *provv1.Cluster) {
				pool := &c.Spec.RKEConfig.MachinePools[0]
				pool.AutoscalingMinSize, pool.AutoscalingMaxSize = smallest, largest
			})
		}
		sizes(nil, nil)
		foreign := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: account + "-kubeconfig"},
			Data:       map[string][]byte{"token": []byte("theirs")}}
		must(t, w.api.Add(foreign))
		w.edit(func(c *provv1.Cluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "edited", "yes") })
		if got := w.condition(); got != "" {
			t.Errorf("condition %q of a cluster without sizes", got)
		}
		sizes(new(int32(1)), new(int32(3)))
		if got := w.condition(); !strings.Contains(got, "AutoscalerNameTaken") || !strings.Contains(got, foreign.Name) {
			t.Errorf("condition %q", got)
		}
		if got := w.kubeconfig(); !slices.Equal(got.Data["token"], []byte("theirs")) {
			t.Error("Drover changed a Secret of others")
		}
		sizes(nil, nil)
		if got := w.condition(); got != "" {
			t.Errorf("condition %q after the sizes", got)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
