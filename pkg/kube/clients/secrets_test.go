package clients

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// stored is a Secret as users write it with kubectl apply.
func stored(name string, kind corev1.SecretType, size int, edits ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"a": "b",
			corev1.LastAppliedConfigAnnotation: "{}"}},
		Type: kind, Data: map[string][]byte{"k": []byte(strings.Repeat("x", size))},
	}
	for _, edit := range edits {
		edit(secret)
	}
	return secret
}

func ownedBy(apiVersion string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "K", Name: "n", UID: "u",
			Controller: new(true)}}
	}
}

// The cache keeps data that Drover reads, and every annotation of what Drover writes.
func TestSecrets_AreReduced(t *testing.T) {
	forged := func(s *corev1.Secret) { s.Annotations[droppedKey] = "dropped-: by a user" }
	for name, tc := range map[string]struct {
		secret  *corev1.Secret
		dropped string
		applied bool
	}{
		"of a user":                     {secret: stored("s", "Opaque", 100)},
		"of the largest size":           {secret: stored("s", "Opaque", 999)},
		"beyond the limit":              {secret: stored("s", "Opaque", 1000), dropped: "has 1001 bytes, more than"},
		"without a type":                {secret: stored("s", "", 1000), dropped: "has 1001 bytes"},
		"of a type that nothing reads":  {secret: stored("s", "istio.io/key-and-cert", 1), dropped: "does not read"},
		"old credentials of a registry": {secret: stored("s", "kubernetes.io/dockercfg", 1), dropped: "does not read"},
		"credentials of a registry":     {secret: stored("s", "kubernetes.io/dockerconfigjson", 100)},
		"a certificate":                 {secret: stored("s", "kubernetes.io/tls", 100)},
		"with the annotation by a user": {secret: stored("s", "Opaque", 100, forged)},
		"a plan":                        {secret: stored("s", rkev1.SecretTypeMachinePlan, 5000), applied: true},
		"a kubeconfig":                  {secret: stored("s", "cluster.x-k8s.io/secret", 5000), applied: true},
		"a token": {secret: stored("s", corev1.SecretTypeServiceAccountToken, 5000),
			applied: true},
		"of a machine": {secret: stored("s", "Opaque", 5000, ownedBy("rke-machine.cattle.io/v1")),
			applied: true},
		"of another program": {secret: stored("s", "Opaque", 5000, ownedBy("example.org/v1")), dropped: "has 5001"},
	} {
		before := tc.secret.DeepCopy()
		tc.secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		for range 2 { // the cache may repeat it
			if _, err := secretLimit(1000).reduce(tc.secret); err != nil {
				t.Fatal(err)
			}
		}
		err := checkDropped(tc.secret)
		if (err == nil) != (tc.dropped == "") || err != nil && (!strings.Contains(err.Error(), tc.dropped) ||
			!strings.HasPrefix(err.Error(), "Secret ns/s ")) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.dropped)
		}
		if tc.dropped != "" {
			before.Data = nil
		}
		if diff := cmp.Diff(before.Data, tc.secret.Data); diff != "" || tc.secret.ManagedFields != nil {
			t.Errorf("%s: managed fields %v, data (-want +got):\n%s", name, tc.secret.ManagedFields, diff)
		}
		if _, applied := tc.secret.Annotations[corev1.LastAppliedConfigAnnotation]; applied != tc.applied {
			t.Errorf("%s: the annotation of kubectl apply is there: %t", name, applied)
		}
	}
	asked := stored("s", "Opaque", 1000, func(s *corev1.Secret) {
		s.Annotations["provisioning.cattle.io/sync"] = "true"
		s.Annotations[rkev1.AuthorizedObjectAnnotation] = strings.Repeat("x", 2000)
	})
	if _, err := secretLimit(1000).reduce(asked); err != nil ||
		asked.Annotations["provisioning.cattle.io/sync"] != "true" || len(asked.Annotations) != 2 ||
		checkDropped(asked) == nil {
		t.Errorf("a Secret that requests copies has %d annotations: %v", len(asked.Annotations), err)
	}
	for name, tc := range map[string]struct {
		lists map[string]string
		want  bool
	}{
		"with its cluster":  {map[string]string{rkev1.AuthorizedObjectAnnotation: "demo"}, true},
		"by the older name": {map[string]string{rkev1.AuthorizedSecretAnnotation: "demo"}, true},
		"with unknown clusters": {
			map[string]string{rkev1.AuthorizedObjectAnnotation: strings.Repeat("x", 2000)}, false,
		},
		"with some unknown ones": {map[string]string{rkev1.AuthorizedObjectAnnotation: strings.Repeat("x", 2000),
			rkev1.AuthorizedSecretAnnotation: "demo"}, false},
	} {
		leaving := stored("s", "Opaque", 1000, func(s *corev1.Secret) {
			s.Annotations = maps.Clone(tc.lists)
			s.Annotations[rkev1.AuthorizedSecretDeletesAnnotation] = "true"
		})
		_, err := secretLimit(1000).reduce(leaving)
		if got := leaving.Annotations[rkev1.AuthorizedSecretDeletesAnnotation] == "true"; err != nil || got != tc.want {
			t.Errorf("deleted %s: %t, want %t; error %v", name, got, tc.want, err)
		}
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "ns/s"}
	if got, err := secretLimit(1000).reduce(tombstone); got != tombstone || err != nil {
		t.Errorf("a deleted object becomes %v, error %v", got, err)
	}
}

// Ten thousand releases of Helm, and a tenant's large Secrets, cost the cache nothing but their names. A reader gets an
// error, and no write deletes data.
// TestSecrets_KeepAnAppliedPlanOnce: the cache has the bytes of a plan once, if the machine has applied it.
func TestSecrets_KeepAnAppliedPlanOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		data map[string]string
		once bool
	}{
		"applied":           {map[string]string{"plan": "new", "appliedPlan": "new"}, true},
		"not yet applied":   {map[string]string{"plan": "new", "appliedPlan": "old"}, false},
		"the first plan":    {map[string]string{"plan": "new"}, false},
		"without a plan":    {map[string]string{"appliedPlan": "old"}, false},
		"without any data":  {nil, false},
		"two empty entries": {map[string]string{"plan": "", "appliedPlan": ""}, false},
	} {
		secret := stored("s", rkev1.SecretTypeMachinePlan, 1)
		for key, value := range tc.data {
			secret.Data[key] = []byte(value)
		}
		before := secret.DeepCopy()
		if _, err := secretLimit(1000).reduce(secret); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before.Data, secret.Data); diff != "" {
			t.Errorf("%s: data (-want +got):\n%s", name, diff)
		}
		plan, applied := secret.Data["plan"], secret.Data["appliedPlan"]
		if once := len(plan) > 0 && len(applied) > 0 && &plan[0] == &applied[0]; once != tc.once {
			t.Errorf("%s: one copy: %t, want %t", name, once, tc.once)
		}
	}
}

// The cache knows which outputs of a machine's Jobs are kept, but not the outputs.
func TestSecrets_OutputsKeepTheirKeys(t *testing.T) {
	secret := stored("s", rkev1.SecretTypeMachineOutput, 5000)
	if _, err := secretLimit(1000).reduce(secret); err != nil {
		t.Fatal(err)
	}
	if value, ok := secret.Data["k"]; !ok || len(value) > 0 || checkDropped(secret) != nil {
		t.Errorf("key %t with %d bytes, error %v", ok, len(value), checkDropped(secret))
	}
}

func TestSecrets_CacheStaysSmall(t *testing.T) {
	const releases, large, size = 10_000, 100, 20_000
	api := newAPI(t)
	admin, err := New(api.Config("user"), Options{WithoutDynamic: true})
	check(t, err)
	create := func(secret *corev1.Secret) {
		_, err := admin.Core.Secret().Create(secret)
		check(t, err)
	}
	for i := range releases {
		create(stored(fmt.Sprintf("release-%d", i), "helm.sh/release.v1", 100))
	}
	for i := range large {
		create(stored(fmt.Sprintf("large-%d", i), "Opaque", size))
	}
	create(stored("credential", "Opaque", 100))
	create(stored("plan", rkev1.SecretTypeMachinePlan, size))
	run(t, api, Options{SecretBytes: 1000, WithoutDynamic: true}, func(c *Clients, start func()) {
		secrets := c.Core.Secret()
		found := secrets.Cache()
		start()
		cached, err := found.List("", labels.Everything())
		check(t, err)
		bytes := 0
		for _, secret := range cached {
			for _, value := range secret.Data {
				bytes += len(value)
			}
			if len(secret.ManagedFields) > 0 {
				t.Fatalf("%s has managed fields", secret.Name)
			}
		}
		if len(cached) != large+2 || bytes != size+100 {
			t.Errorf("the cache has %d Secrets with %d bytes, want %d with %d, of %d with %d", len(cached), bytes,
				large+2, size+100, releases+large+2, releases*100+large*size+size+100)
		}
		dropped := new(SecretDroppedError)
		if _, err := found.Get("ns", "large-7"); !errors.As(err, &dropped) || dropped.Name != "large-7" ||
			!strings.Contains(err.Error(), "limit cached-secret-bytes (1000)") {
			t.Errorf("a reader gets %v", err)
		}
		for _, name := range []string{"credential", "plan"} {
			secret, err := found.Get("ns", name)
			check(t, err)
			next := secret.DeepCopy()
			next.Data["new"] = []byte("x")
			_, err = secrets.Update(next)
			check(t, err)
		}
		for _, secret := range cached {
			if secret.Name != "large-7" {
				continue
			}
			if _, err := secrets.Update(secret.DeepCopy()); !errors.Is(err, errDropped) {
				t.Errorf("a write from the cache: error %v", err)
			}
		}
		live, err := secrets.Get("ns", "large-7", metav1.GetOptions{})
		check(t, err)
		if len(live.Data["k"]) != size {
			t.Errorf("%d bytes remain", len(live.Data["k"]))
		}
	})
}
