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

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// agents simulates the agents' connections and the clusters that they lead to.
type agents struct {
	mu        sync.Mutex
	connected map[string]bool
	listeners []func(string)
	cluster   *memkube.Server
	// others holds the other clusters.
	others map[string]*memkube.Server
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

func (a *agents) Client(_ context.Context, cluster types.NamespacedName) (kubernetes.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.others[cluster.Name]; other != nil {
		return kubernetes.NewForConfig(other.Config(inside))
	}
	return kubernetes.NewForConfig(a.cluster.Config(inside))
}

// join adds another cluster, with a connected agent.
func (a *agents) join(name string, cluster *memkube.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.others[name], a.connected["c-m-"+name] = cluster, true
}

// set connects or disconnects an agent.
func (a *agents) set(connected bool) {
	a.mu.Lock()
	a.connected = map[string]bool{id: connected}
	listeners := a.listeners
	a.mu.Unlock()
	for _, listener := range listeners {
		listener(id)
	}
}

// installed installs an agent in the cluster.
func (w *world) installed(annotations map[string]string) {
	w.Helper()
	must(w.T, w.agents.cluster.Add(&appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: clustermanifest.Deployment,
			Annotations: annotations},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "cluster-register", Image: "drover-io/drover:v0"}},
		}}},
	}))
}

// image returns the image of the cluster's agent.
func (w *world) image() string {
	w.Helper()
	found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
		Name: clustermanifest.Deployment}}
	_, err := w.agents.cluster.Get(found)
	must(w.T, err)
	return found.Spec.Template.Spec.Containers[0].Image
}

// An agent is updated when it connects, and when its manifest changes; otherwise nothing is written in its cluster.
func TestStory_AgentsAreKeptUpToDate(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
		w.pass()
		if got := w.image(); got != "drover-io/drover:v0" {
			t.Fatalf("before it connects, the agent has image %s", got)
		}
		w.agents.set(true)
		w.pass()
		if got := w.image(); got != "r.example.com/drover-io/drover:v1" {
			t.Fatalf("the agent has image %s; log %s", got, w.log)
		}
		w.agents.cluster.ResetLog()
		w.agents.set(false)
		w.agents.set(true)
		w.pass()
		if writes := w.agents.cluster.Writes(inside); len(writes) > 0 {
			t.Errorf("the controller writes an up-to-date agent: %v", writes)
		}
		edited, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
		must(t, err)
		edited.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
		_, err = w.user.Management.Cluster().Update(edited)
		must(t, err)
		w.pass()
		if writes := w.agents.cluster.Writes(inside); len(writes) == 0 {
			t.Error("the agent does not get the proxy")
		}
	})
}

// An agent is updated again after a server that starts has reapplied the old manifest of its plan.
func TestStory_WhatWasUndoneIsDoneAgain(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
		w.agents.set(true)
		w.pass()
		found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
			Name: clustermanifest.Deployment}}
		_, err := w.agents.cluster.Get(found)
		must(t, err)
		client, err := w.agents.Client(t.Context(), types.NamespacedName{})
		must(t, err)
		found.Annotations[clustermanifest.DigestAnnotation], found.Spec.Template.Spec.Containers[0].Image =
			"the first one", "drover-io/drover:v0"
		_, err = client.AppsV1().Deployments(found.Namespace).Update(t.Context(), found, metav1.UpdateOptions{})
		must(t, err)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if got := w.image(); got != "r.example.com/drover-io/drover:v1" {
			t.Errorf("the agent has image %s", got)
		}
	})
}

// A replaced token stays valid until the agent has connected with the new one, and that is recorded in the token's
// Secret.
func TestStory_TheTokenThatAnAgentHasIsNoted(t *testing.T) {
	tell(t, func(w *world) {
		replaced := token()
		replaced.Data["previousToken"] = []byte("hunter1")
		stored := &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo-cluster-agent"},
			Type:       rkev1.SecretTypeClusterAgent, Data: map[string][]byte{"manifest": []byte("the first token"),
				"token": []byte("hunter1")},
		}
		w.add(replaced, stored, controlPlane(false))
		noted := func() bool {
			found := token()
			_, err := w.api.Get(found)
			must(t, err)
			return found.Annotations[registration.FollowedAnnotation] != ""
		}
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "with the former token"})
		if noted() {
			t.Fatal("the use is recorded although no agent is connected")
		}
		w.agents.set(true)
		w.pass()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !noted() {
			t.Errorf("the agent has the new token, but its use is not recorded; log %s", w.log)
		}
		_, err := w.api.Get(stored)
		must(t, err)
		if string(stored.Data["token"]) == "hunter1" || string(stored.Data["manifest"]) != "the first token" {
			t.Errorf("the Cluster moves with %q and %q", stored.Data["token"], stored.Data["manifest"])
		}
	})
}

func TestStory_AgentsOfOthersAreLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		replaced := token()
		replaced.Data["previousToken"] = []byte("hunter1")
		w.add(replaced, controlPlane(false))
		w.installed(nil)
		w.agents.set(true)
		w.pass()
		if writes := w.agents.cluster.Writes(inside); len(writes) > 0 || w.image() != "drover-io/drover:v0" {
			t.Errorf("the controller writes %v", writes)
		}
		found := token()
		_, err := w.api.Get(found)
		must(t, err)
		if len(found.Annotations) > 0 {
			t.Errorf("the use of a new token is recorded for a foreign agent: %v", found.Annotations)
		}
	})
}

// A failed update is retried, and its log message does not contain the token.
func TestStory_UpdatesAreTriedAgain(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
		w.agents.cluster.Intercept(func(memkube.Request) error { return errors.New("the cluster is busy") })
		w.agents.set(true)
		w.pass()
		w.agents.cluster.Intercept(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.image(); got != "r.example.com/drover-io/drover:v1" || strings.Contains(w.log.String(), "hunter2") {
			t.Errorf("the agent has image %s; log %s", got, w.log)
		}
	})
}

// One cluster gets a new agent first, and others follow after it connects, so that a broken agent does not affect all
// clusters at once.
func TestStory_OthersFollowWhenTheFirstNewAgentHasCome(t *testing.T) {
	tell(t, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			w.another(name, false)
		}
		w.pass()
		first := w.replaced()
		if len(first) != 1 {
			t.Fatalf("the first updated clusters are %v", first)
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if got := w.replaced(); len(got) != 1 {
			t.Fatalf("updated before the first agent connects: %v", got)
		}
		w.comes(first[0])
		if got := w.replaced(); len(got) != 3 {
			t.Fatalf("updated after the first agent connects: %v; log %s", got, w.log)
		}
		if strings.Contains(w.log.String(), "do not connect") {
			t.Errorf("log %s", w.log)
		}
	})
}

// another adds a cluster with a connected, outdated agent, with or without an authorized endpoint.
func (w *world) another(name string, endpoint bool) {
	w.Helper()
	other := memkube.New(memkube.Options{Namespaces: []string{clustermanifest.Namespace}})
	must(w.T, other.Add(&appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: clustermanifest.Deployment,
			Annotations: map[string]string{clustermanifest.DigestAnnotation: "before"}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}))
	w.agents.join(name, other)
	credential := token()
	credential.Namespace = "c-m-" + name
	must(w.T, w.api.Add(
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "c-m-" + name}}, credential,
		&mgmtv3.Cluster{TypeMeta: metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Name: "c-m-" + name}},
		&provv1.Cluster{
			TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name,
				Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
			Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{},
				LocalClusterAuthEndpoint: rkev1.LocalClusterAuthEndpoint{Enabled: endpoint}},
			Status: provv1.ClusterStatus{ClusterName: "c-m-" + name},
		},
	))
}

// comes connects the new agent of another cluster.
func (w *world) comes(name string) {
	w.Helper()
	found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
		Name: clustermanifest.Deployment}}
	_, err := w.agents.others[name].Get(found)
	must(w.T, err)
	client, err := w.agents.Client(w.Context(), types.NamespacedName{Name: name})
	must(w.T, err)
	found.Status = appsv1.DeploymentStatus{ObservedGeneration: found.Generation, Replicas: 1, UpdatedReplicas: 1,
		AvailableReplicas: 1}
	_, err = client.AppsV1().Deployments(found.Namespace).UpdateStatus(w.Context(), found, metav1.UpdateOptions{})
	must(w.T, err)
	for _, listener := range w.agents.listeners {
		listener("c-m-" + name)
	}
	w.pass()
}

// replaced returns the other clusters that have a new agent.
func (w *world) replaced() []string {
	w.Helper()
	var replaced []string
	for name, other := range w.agents.others {
		found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
			Name: clustermanifest.Deployment}}
		_, err := other.Get(found)
		must(w.T, err)
		if found.Annotations[clustermanifest.DigestAnnotation] != "before" {
			replaced = append(replaced, name)
		}
	}
	return replaced
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	return &agents{connected: map[string]bool{}, others: map[string]*memkube.Server{},
		cluster: memkube.New(memkube.Options{Namespaces: []string{clustermanifest.Namespace}})}
}
