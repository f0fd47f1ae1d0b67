package clusteragent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// agents are connected or not, and what they lead to.
type agents struct {
	mu        sync.Mutex
	connected map[string]bool
	listeners []func(string)
	cluster   *memkube.Server
}

func (a *agents) Connected(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connected[id]
}

func (a *agents) Subscribe(_ context.Context, listener func(string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listeners = append(a.listeners, listener)
}

func (a *agents) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(a.cluster.Config(inside))
}

// set lets an agent come or go.
func (a *agents) set(connected bool) {
	a.mu.Lock()
	a.connected = map[string]bool{id: connected}
	listeners := a.listeners
	a.mu.Unlock()
	for _, listener := range listeners {
		listener(id)
	}
}

// installed puts an agent into the cluster.
func (w *world) installed(annotations map[string]string) {
	w.Helper()
	must(w.T, w.agents.cluster.Add(&appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: clustermanifest.Deployment, Annotations: annotations},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "cluster-register", Image: "drover-io/drover:v0"}},
		}}},
	}))
}

// image is that of the agent in the cluster.
func (w *world) image() string {
	w.Helper()
	found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: clustermanifest.Deployment}}
	_, err := w.agents.cluster.Get(found)
	must(w.T, err)
	return found.Spec.Template.Spec.Containers[0].Image
}

// An agent is brought up to date when it connects, and when what it is installed with changes; otherwise nothing is written in its cluster.
func TestStory_AgentsAreKeptUpToDate(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "that of another release"})
		w.pass()
		if got := w.image(); got != "drover-io/drover:v0" {
			t.Fatalf("before it connects the agent is %s", got)
		}
		w.agents.set(true)
		w.pass()
		if got := w.image(); got != "r.example.com/drover-io/drover:v1" {
			t.Fatalf("the agent is %s; log %s", got, w.log)
		}
		w.agents.cluster.ResetLog()
		w.agents.set(false)
		w.agents.set(true)
		w.pass()
		if writes := w.agents.cluster.Writes("drover"); len(writes) > 0 {
			t.Errorf("an agent that is up to date is written: %v", writes)
		}
		edited, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
		must(t, err)
		edited.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
		_, err = w.user.Management.Cluster().Update(edited)
		must(t, err)
		w.pass()
		if writes := w.agents.cluster.Writes("drover"); len(writes) == 0 {
			t.Error("a proxy that the agent needs does not reach it")
		}
	})
}

func TestStory_AgentsOfOthersAreLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(nil)
		w.agents.set(true)
		w.pass()
		if writes := w.agents.cluster.Writes("drover"); len(writes) > 0 || w.image() != "drover-io/drover:v0" {
			t.Errorf("writes %v", writes)
		}
	})
}

// What fails is tried again, and the token is in no message about it.
func TestStory_UpdatesAreTriedAgain(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "that of another release"})
		w.agents.cluster.Intercept(func(memkube.Request) error { return errors.New("the cluster is busy") })
		w.agents.set(true)
		w.pass()
		w.agents.cluster.Intercept(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.image(); got != "r.example.com/drover-io/drover:v1" || strings.Contains(w.log.String(), "hunter2") {
			t.Errorf("the agent is %s; log %s", got, w.log)
		}
	})
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	return &agents{cluster: memkube.New(memkube.Options{Namespaces: []string{clustermanifest.Namespace}})}
}
