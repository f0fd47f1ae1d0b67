package clusteragent_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/clusteragent"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	id       = "c-m-12345678"
	instance = "instance-1"
	fleet    = "fleet-default"
	agent    = "drover/test"
	inside   = "drover" // in the cluster of the agent
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	log  *bytes.Buffer
	// agents have a cluster of their own.
	agents *agents
	stop   func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

// tell runs a test in virtual time, with a cluster of this instance that has everything but what the test adds.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, f)
}

// inWorld is tell for a test that runs several times in sequence.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, log: &bytes.Buffer{}, agents: newAgents(t)}
		w.api = memkube.New(memkube.Options{
			Scheme: scheme, CRDs: definitions, Namespaces: []string{fleet, id, "drover-system"},
			Permit: rights.Permit(t, agent),
		})
		cluster := &provv1.Cluster{
			TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo",
				Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
			Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}, Status: provv1.ClusterStatus{ClusterName: id},
		}
		management := &mgmtv3.Cluster{TypeMeta: metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Name: id}}
		must(t, w.api.Add(cluster, management))
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	log := logrus.New()
	log.SetOutput(w.log)
	must(w.T, clusteragent.Register(c.HandlerContext(), clusteragent.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(),
		ControlPlanes: c.RKE.RKEControlPlane(), Secrets: c.Core.Secret(),
		InstanceID: instance, Log: log, Tunnel: w.agents, Downstream: w.agents, Source: clustermanifest.Source{
			ServerURL: "https://drover.example.com", Image: "drover-io/drover:v1", Registry: "r.example.com",
			PullSecrets: []types.NamespacedName{{Namespace: "drover-system", Name: "pull"}},
		},
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

func (w *world) add(objects ...runtime.Object) {
	w.Helper()
	must(w.T, w.api.Add(objects...))
	w.pass()
}

func (w *world) pass() { w.elapse(time.Second) }

// elapse lets time d pass. If the controller was killed meanwhile, elapse restarts it and lets d pass again.
func (w *world) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.stop()
		w.api.Mend(agent)
		w.agents.cluster.Mend(inside)
		w.start()
		w.elapse(d)
	default:
	}
}

// manifest returns the manifest in the Secret, "" without a Secret.
func (w *world) manifest() string {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo-cluster-agent"}}
	exists, err := w.api.Get(secret)
	must(w.T, err)
	if !exists {
		return ""
	}
	if secret.Labels[rkev1.ClusterNameLabel] != "demo" || secret.Labels[rkev1.BackupLabel] == "" ||
		len(secret.OwnerReferences) != 1 {
		w.Errorf("the Secret has labels %v and owners %v", secret.Labels, secret.OwnerReferences)
	}
	return string(secret.Data["manifest"])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func token() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: id, Name: "crt-token-system"},
		Data:       map[string][]byte{"token": []byte("hunter2")},
	}
}

// edit changes the management cluster.
func (w *world) edit(change func(*mgmtv3.Cluster)) {
	w.Helper()
	found, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
	must(w.T, err)
	change(found)
	_, err = w.user.Management.Cluster().Update(found)
	must(w.T, err)
	w.pass()
}

// deployed records that an agent has been connected.
func (w *world) deployed() {
	w.Helper()
	found, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
	must(w.T, err)
	found.Status.Conditions = []rkev1.GenericCondition{{Type: mgmtv3.ClusterConditionAgentDeployed, Status: "True"}}
	_, err = w.user.Management.Cluster().UpdateStatus(found)
	must(w.T, err)
	w.pass()
}

func controlPlane(initialized bool) *rkev1.RKEControlPlane {
	return &rkev1.RKEControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo"},
		Status:     rkev1.RKEControlPlaneStatus{Initialized: initialized},
	}
}

// A new cluster's manifest is made once everything it needs exists, in any order, and then never changes.
func TestStory_NewClusterGetsItsManifestOnce(t *testing.T) {
	pull := func() *corev1.Secret {
		return &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: "pull"},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
		}
	}
	for name, objects := range map[string][]runtime.Object{
		"the token comes last":         {pull(), controlPlane(false), token()},
		"the control plane comes last": {pull(), token(), controlPlane(false)},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.add(objects[:2]...)
				if got := w.manifest(); got != "" {
					t.Fatalf("there is a manifest without its input: %s", got)
				}
				w.add(objects[2])
				made := w.manifest()
				if !strings.Contains(made, "image: r.example.com/drover-io/drover:v1") ||
					!strings.Contains(made, "kubernetes.io/dockerconfigjson") {
					t.Fatalf("manifest %s", made)
				}
				w.edit(func(c *mgmtv3.Cluster) {
					c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
				})
				mended := w.manifest()
				if !strings.Contains(mended, "http://proxy") || len(w.api.Writes(agent)) != 2 {
					t.Errorf("an agent that needs a proxy never gets it; writes %v", w.api.Writes(agent))
				}
				w.deployed()
				w.edit(func(c *mgmtv3.Cluster) { c.Spec.AgentEnvVars[0].Value = "http://other" })
				if w.manifest() != mended || len(w.api.Writes(agent)) != 2 {
					t.Errorf("the manifest of a reachable cluster has changed; writes %v", w.api.Writes(agent))
				}
				if strings.Contains(w.log.String(), "hunter2") {
					t.Error("the token is in the log")
				}
			})
		})
	}
}

func TestStory_ClusterThatRunsWithoutAnAgentIsLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(true))
		if w.manifest() != "" || len(w.api.Writes(agent)) != 0 {
			t.Fatal("the plans of a running cluster have changed")
		}
		w.deployed()
		if w.manifest() == "" {
			t.Error("new servers lack the installed agent in their plans")
		}
	})
}

func TestStory_LostManifestComesBack(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		made := w.manifest()
		must(t, w.user.Core.Secret().Delete(fleet, "demo-cluster-agent", &metav1.DeleteOptions{}))
		w.pass()
		if got := w.manifest(); made == "" || got != made {
			t.Errorf("manifest %q", got)
		}
	})
}

func TestStory_OnlyOurClustersGetOne(t *testing.T) {
	for name, edit := range map[string]func(c *provv1.Cluster){
		"another instance's cluster": func(c *provv1.Cluster) {
			c.Annotations[rkev1.InstanceAnnotation] = "instance-2"
		},
		"an imported cluster": func(c *provv1.Cluster) { c.Spec.RKEConfig = nil },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				found, err := w.user.Provisioning.Cluster().Get(fleet, "demo", metav1.GetOptions{})
				must(t, err)
				edit(found)
				_, err = w.user.Provisioning.Cluster().Update(found)
				must(t, err)
				w.pass()
				w.add(token(), controlPlane(false))
				if w.manifest() != "" {
					t.Error("the cluster got a manifest")
				}
			})
		})
	}
}

// The Secret of an earlier cluster with the same name is neither used nor written, and after its deletion the cluster
// gets its own.
func TestStory_ManifestOfAClusterBeforeIsNotTaken(t *testing.T) {
	tell(t, func(w *world) {
		former := &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fleet, Name: "demo-cluster-agent", Finalizers: []string{"example.org/slow"},
				Labels:      map[string]string{rkev1.ClusterNameLabel: "demo", rkev1.BackupLabel: "true"},
				Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster",
					Name: "demo", UID: "former"}},
			},
			Type: rkev1.SecretTypeClusterAgent, Data: map[string][]byte{"manifest": []byte("former")},
		}
		w.add(former, token(), controlPlane(false))
		if got := w.manifest(); got != "former" || len(w.api.Writes(agent)) != 0 {
			t.Fatalf("manifest %q, writes %v", got, w.api.Writes(agent))
		}
		found, err := w.user.Core.Secret().Get(fleet, "demo-cluster-agent", metav1.GetOptions{})
		must(t, err)
		found.Finalizers = nil
		_, err = w.user.Core.Secret().Update(found)
		must(t, err)
		w.pass()
		if err := w.user.Core.Secret().Delete(fleet, "demo-cluster-agent", &metav1.DeleteOptions{}); err == nil &&
			w.manifest() != "" {
			t.Fatal("the Secret still exists")
		}
		w.pass()
		if got := w.manifest(); !strings.Contains(got, "drover-io/drover:v1") {
			t.Errorf("manifest %q", got)
		}
	})
}
