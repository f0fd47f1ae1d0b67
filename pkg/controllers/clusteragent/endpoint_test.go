package clusteragent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// enable enables or disables the cluster's endpoint, as a user and the other controllers do.
func (w *world) enable(enabled bool) {
	w.Helper()
	found, err := w.user.Provisioning.Cluster().Get(fleet, "demo", metav1.GetOptions{})
	must(w.T, err)
	found.Spec.LocalClusterAuthEndpoint.Enabled = enabled
	_, err = w.user.Provisioning.Cluster().Update(found)
	must(w.T, err)
	synctest.Wait() // without this, the controller may see the second write first and act on the old Cluster
	w.edit(func(c *mgmtv3.Cluster) { c.Spec.LocalClusterAuthEndpoint.Enabled = enabled })
}

// keys returns the endpoint's keys, nil if there are none.
func (w *world) keys() *endpointtoken.Keys {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo-endpoint-keys"}}
	exists, err := w.api.Get(secret)
	must(w.T, err)
	if !exists {
		return nil
	}
	if secret.Labels[rkev1.ClusterNameLabel] != "demo" || secret.Labels[rkev1.BackupLabel] == "" ||
		len(secret.OwnerReferences) != 1 {
		w.Errorf("the Secret has labels %v and owners %v", secret.Labels, secret.OwnerReferences)
	}
	keys, err := endpointtoken.KeysOf(secret)
	must(w.T, err)
	return &keys
}

// trusts returns whether the cluster trusts a key, and whether it has the token authenticator.
func (w *world) trusts(keys *endpointtoken.Keys) (trusted, served bool) {
	w.Helper()
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
		Name: clustermanifest.Auth}}
	exists, err := w.agents.cluster.Get(found)
	must(w.T, err)
	if exists && keys != nil {
		management, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
		must(w.T, err)
		trust, err := endpointtoken.ParseTrust([]byte(found.Data[clustermanifest.TrustKey]))
		must(w.T, err)
		token, err := keys.Sign(endpointtoken.Claims{
			ID: "1", Audience: endpointtoken.Audience(id, management.UID), Issued: time.Now(),
			Expires: time.Now().Add(time.Hour), User: authenticationv1.UserInfo{Username: "jane"},
		})
		must(w.T, err)
		_, err = trust.Verify(token, time.Now())
		trusted = err == nil
	}
	served, err = w.agents.cluster.Get(
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
			Name: clustermanifest.Auth}})
	must(w.T, err)
	return trusted, served
}

func (w *world) deleteKeys() {
	w.Helper()
	must(w.T, w.user.Core.Secret().Delete(fleet, "demo-endpoint-keys", &metav1.DeleteOptions{}))
	w.pass()
}

// aged makes the keys older.
func (w *world) aged(by time.Duration) {
	w.Helper()
	secret, err := w.user.Core.Secret().Get(fleet, "demo-endpoint-keys", metav1.GetOptions{})
	must(w.T, err)
	since, err := time.Parse(time.RFC3339, string(secret.Data["since"]))
	must(w.T, err)
	secret.Data["since"] = []byte(since.Add(-by).Format(time.RFC3339))
	_, err = w.user.Core.Secret().Update(secret)
	must(w.T, err)
	w.elapse(time.Minute)
}

// connected makes a running cluster with an agent.
func (w *world) connected() {
	w.Helper()
	w.add(token(), controlPlane(true))
	w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
	w.agents.set(true)
	w.pass()
}

// An endpoint that is enabled in a running cluster is soon served with its own keys, and both are removed when it is
// disabled.
func TestStory_AnEndpointIsSwitchedOnAndOff(t *testing.T) {
	tell(t, func(w *world) {
		w.connected()
		if trusted, served := w.trusts(nil); trusted || served || w.keys() != nil {
			t.Fatal("parts of an endpoint exist although it is disabled")
		}
		manifest := w.manifest()
		w.enable(true)
		w.elapse(time.Minute)
		keys := w.keys()
		if keys == nil {
			t.Fatalf("the keys are missing; log %s", w.log)
		}
		if trusted, served := w.trusts(keys); !trusted || !served {
			t.Fatalf("trusted %t, served %t; log %s", trusted, served, w.log)
		}
		if w.manifest() != manifest {
			t.Error("plans of servers change with it")
		}
		w.agents.cluster.ResetLog()
		w.elapse(time.Hour)
		if writes := w.agents.cluster.Writes(inside); len(writes) > 0 {
			t.Errorf("the controller writes settled objects: %v", writes)
		}
		w.enable(false)
		w.elapse(time.Minute)
		if _, served := w.trusts(nil); served || w.keys() != nil {
			t.Errorf("served %t, keys %v; log %s", served, w.keys(), w.log)
		}
	})
}

// Deleting the keys invalidates all tokens, because the cluster then trusts new keys.
func TestStory_DeletedKeysEndAllTokens(t *testing.T) {
	tell(t, func(w *world) {
		w.connected()
		w.enable(true)
		w.elapse(time.Minute)
		before := w.keys()
		w.deleteKeys()
		w.elapse(time.Minute)
		after := w.keys()
		if after == nil {
			t.Fatal("the keys are missing")
		}
		if trusted, _ := w.trusts(before); trusted {
			t.Error("tokens of the former keys are valid")
		}
		if trusted, served := w.trusts(after); !trusted || !served {
			t.Errorf("trusted %t, served %t; log %s", trusted, served, w.log)
		}
	})
}

// Deleting the keys also invalidates all tokens if the Secret was restored without its labels.
func TestStory_DeletedKeysEndAllTokens_WhateverTheirLabels(t *testing.T) {
	tell(t, func(w *world) {
		w.connected()
		w.enable(true)
		w.elapse(time.Minute)
		before := w.keys()
		secret, err := w.user.Core.Secret().Get(fleet, "demo-endpoint-keys", metav1.GetOptions{})
		must(t, err)
		secret.Labels = nil
		_, err = w.user.Core.Secret().Update(secret)
		must(t, err)
		w.elapse(time.Minute)
		w.deleteKeys()
		w.elapse(time.Minute)
		if trusted, _ := w.trusts(before); trusted || w.keys() == nil {
			t.Errorf("tokens of the former keys are valid: %t; log %s", trusted, w.log)
		}
	})
}

// Unreadable keys affect only their own cluster's endpoint: agents are still updated in all clusters, and the problem
// is logged.
func TestStory_SpoiledKeysHoldUpNoAgent(t *testing.T) {
	tell(t, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			must(t, w.api.Add(&corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name + "-endpoint-keys"},
				Type:       corev1.SecretTypeOpaque,
			}))
			w.another(name, true)
			replaced, err := w.user.Core.Secret().Get("c-m-"+name, token().Name, metav1.GetOptions{})
			must(t, err)
			replaced.Data[registration.KeyPreviousToken] = []byte("the former token")
			_, err = w.user.Core.Secret().Update(replaced)
			must(t, err)
			w.pass()
		}
		w.another("d", false)
		w.pass()
		for range 4 {
			w.elapse(8 * time.Minute)
			for _, name := range w.replaced() {
				w.comes(name)
			}
		}
		if replaced := w.replaced(); len(replaced) != 4 {
			t.Errorf("the updated clusters are %v", replaced)
		}
		followed, err := w.user.Core.Secret().Get("c-m-a", token().Name, metav1.GetOptions{})
		must(t, err)
		if followed.Annotations[registration.FollowedAnnotation] == "" {
			t.Error("the former token stays valid although the agent has the new one")
		}
		log := w.log.String()
		if strings.Contains(log, "The agent of a cluster cannot be") ||
			!strings.Contains(log, "The authorized endpoint of a cluster cannot be") ||
			!strings.Contains(log, "delete the Secret, and Drover creates it again") {
			t.Errorf("log %s", log)
		}
	})
}

// Keys with a date in the future are rotated.
func TestStory_KeysOfTheFutureTurn(t *testing.T) {
	tell(t, func(w *world) {
		w.connected()
		w.enable(true)
		w.elapse(time.Minute)
		before := w.keys()
		w.aged(-100 * 365 * 24 * time.Hour)
		w.elapse(endpointtoken.MaxLife + time.Hour)
		if trusted, _ := w.trusts(before); trusted {
			t.Error("the key is trusted")
		}
		if trusted, _ := w.trusts(w.keys()); !trusted {
			t.Errorf("no other key is trusted; log %s", w.log)
		}
	})
}

// The token authenticator is updated after the agent, so that an image that cannot be pulled is found in one cluster
// first; keys do not wait.
func TestStory_WhatAnswersAboutTokensIsReplacedAfterTheAgent(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(true))
		w.enable(true)
		before := w.keys()
		done := appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		former := map[string]string{clustermanifest.DigestAnnotation: "of another release"}
		must(t, w.agents.cluster.Add(
			&appsv1.Deployment{
				TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
				ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: clustermanifest.Deployment,
					Annotations: former}, Status: done,
			},
			&appsv1.DaemonSet{
				TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
				ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: clustermanifest.Auth,
					Annotations: former},
			},
		))
		replaced := func() bool {
			found := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
				Name: clustermanifest.Auth}}
			_, err := w.agents.cluster.Get(found)
			must(t, err)
			return found.Annotations[clustermanifest.DigestAnnotation] != former[clustermanifest.DigestAnnotation]
		}
		w.agents.set(true)
		w.elapse(time.Minute)
		if trusted, _ := w.trusts(before); !trusted || replaced() {
			t.Fatalf("before the new agent connects: keys trusted %t, replaced %t; log %s", trusted, replaced(), w.log)
		}
		client, err := w.agents.Client(t.Context(), types.NamespacedName{})
		must(t, err)
		agent, err := client.AppsV1().Deployments(clustermanifest.Namespace).Get(t.Context(),
			clustermanifest.Deployment, metav1.GetOptions{})
		must(t, err)
		done.ObservedGeneration = agent.Generation
		agent.Status = done
		_, err = client.AppsV1().Deployments(clustermanifest.Namespace).UpdateStatus(t.Context(), agent,
			metav1.UpdateOptions{})
		must(t, err)
		w.elapse(time.Minute)
		if !replaced() {
			t.Errorf("after the new agent connects; log %s", w.log)
		}
	})
}

// Keys are rotated from time to time, and valid tokens stay valid.
func TestStory_KeysTurn(t *testing.T) {
	tell(t, func(w *world) {
		w.connected()
		w.enable(true)
		w.elapse(time.Minute)
		before := w.keys()
		w.aged(endpointtoken.KeyLife)
		after := w.keys()
		if before.String() == after.String() {
			t.Fatalf("the same key signs after %s", endpointtoken.KeyLife)
		}
		for name, keys := range map[string]*endpointtoken.Keys{"before": before, "after": after} {
			if trusted, _ := w.trusts(keys); !trusted {
				t.Errorf("the key %s is not trusted", name)
			}
		}
		w.aged(endpointtoken.MaxLife + time.Hour)
		if trusted, _ := w.trusts(before); trusted {
			t.Error("the former key is trusted although all its tokens have expired")
		}
	})
}

// A disconnected cluster gets the authenticator when it connects, even long after the endpoint was enabled, and another
// program's object of that name stays.
func TestStory_AnEndpointWaitsForTheAgent(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(true))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
		w.enable(true)
		if _, served := w.trusts(nil); served || w.keys() == nil {
			t.Fatalf("served %t, keys %v", served, w.keys())
		}
		w.agents.set(true)
		w.elapse(time.Minute)
		if trusted, served := w.trusts(w.keys()); !trusted || !served {
			t.Errorf("trusted %t, served %t; log %s", trusted, served, w.log)
		}
		client, err := w.agents.Client(t.Context(), types.NamespacedName{})
		must(t, err)
		server, err := client.AppsV1().DaemonSets(clustermanifest.Namespace).Get(t.Context(), clustermanifest.Auth,
			metav1.GetOptions{})
		must(t, err)
		server.Annotations = nil
		_, err = client.AppsV1().DaemonSets(clustermanifest.Namespace).Update(t.Context(), server,
			metav1.UpdateOptions{})
		must(t, err)
		w.enable(false)
		w.elapse(time.Minute)
		synctest.Wait()
		if _, served := w.trusts(nil); !served || w.keys() != nil {
			t.Errorf("the foreign authenticator is left %t, keys %v; log %s", served, w.keys(), w.log)
		}
	})
}

// Imported clusters get no endpoint, because Drover does not configure their API servers.
func TestStory_AnImportedClusterHasNoEndpoint(t *testing.T) {
	tell(t, func(w *world) {
		found, err := w.user.Provisioning.Cluster().Get(fleet, "demo", metav1.GetOptions{})
		must(t, err)
		found.Spec = provv1.ClusterSpec{}
		_, err = w.user.Provisioning.Cluster().Update(found)
		must(t, err)
		w.enable(true)
		w.connected()
		if _, served := w.trusts(nil); served || w.keys() != nil {
			t.Errorf("served %t, keys %v", served, w.keys())
		}
	})
}
