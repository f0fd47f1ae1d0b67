package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// managementCluster is the object that identifies a management cluster.
func managementCluster(uid types.UID) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
}

// TestSharedAuthority_OtherManagementClusters: a folder keeps a separate authority for each management cluster and for
// the embedded plane, and exposes no key to another.
func TestSharedAuthority_OtherManagementClusters(t *testing.T) {
	dir := t.TempDir()
	embedded, err := pki.OpenAuthority(dir, authorityName, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	clients := map[types.UID]*fake.Clientset{"a": fake.NewClientset(managementCluster("a")),
		"b": fake.NewClientset(managementCluster("b"))}
	seen := map[string]string{string(embedded.CertPEM): "embedded"}
	for _, uid := range []types.UID{"a", "b", "a", "b"} {
		ca, err := sharedAuthority(t.Context(), clients[uid], dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if owner := seen[string(ca.CertPEM)]; owner != "" && owner != string(uid) {
			t.Errorf("management clusters %s and %s share an authority", uid, owner)
		}
		seen[string(ca.CertPEM)] = string(uid)
	}
	if len(seen) != 3 {
		t.Errorf("%d authorities for three management clusters", len(seen))
	}
	again, err := pki.OpenAuthority(dir, authorityName, time.Now)
	if err != nil || string(again.CertPEM) != string(embedded.CertPEM) {
		t.Errorf("the embedded management plane lost its authority: %v", err)
	}
}

// TestSharedAuthority_ReplicasAndRestarts: every replica serves with the same authority at its first start, after a
// restart and with an empty folder.
func TestSharedAuthority_ReplicasAndRestarts(t *testing.T) {
	client := fake.NewClientset(managementCluster("a"))
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	found := make([]string, len(dirs))
	var replicas sync.WaitGroup
	for i, dir := range dirs {
		replicas.Go(func() {
			ca, err := sharedAuthority(t.Context(), client, dir, "")
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := ca.Serving("drover-serving", "drover.example.org"); err != nil {
				t.Error(err)
			}
			found[i] = string(ca.CertPEM)
		})
	}
	replicas.Wait()
	for _, dir := range append(dirs, filepath.Join(t.TempDir(), "empty", "pki")) {
		ca, err := sharedAuthority(t.Context(), client, dir, "")
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(ca.CertPEM))
		info, err := os.Stat(authorityFiles(filepath.Join(dir, "a"))[corev1.TLSPrivateKeyKey])
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key is %v, %v", info, err)
		}
	}
	for i := range found {
		if found[i] == "" || found[i] != found[0] {
			t.Errorf("replica or start %d has another authority", i)
		}
	}
}

// TestSharedAuthority_KeepsExistingFiles: an installation with one replica keeps its existing authority.
func TestSharedAuthority_KeepsExistingFiles(t *testing.T) {
	dir := t.TempDir()
	before, err := sharedAuthority(t.Context(), fake.NewClientset(managementCluster("a")), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	after, err := sharedAuthority(t.Context(), fake.NewClientset(managementCluster("a")), dir, "")
	if err != nil || string(after.CertPEM) != string(before.CertPEM) {
		t.Errorf("the authority has changed, %v", err)
	}
}

// TestSharedAuthority_DamagedSecretIsNotReplaced: replacing the Secret would cut every machine off from its server.
func TestSharedAuthority_DamagedSecretIsNotReplaced(t *testing.T) {
	damaged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: authorityNamespace, Name: authorityName}}
	if _, err := sharedAuthority(t.Context(), fake.NewClientset(managementCluster("a"), damaged), t.TempDir(),
		""); err == nil {
		t.Error("a Secret without a key is accepted")
	}
}

// TestSharedAuthority_ForbiddenIdentity: without permission to read namespace kube-system, the instance needs a
// name.
func TestSharedAuthority_ForbiddenIdentity(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "namespaces", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, metav1.NamespaceSystem,
			nil)
	})
	dir := t.TempDir()
	if _, err := sharedAuthority(t.Context(), client, dir, ""); err == nil ||
		!strings.Contains(err.Error(), "--instance-id") {
		t.Errorf("error is %v", err)
	}
	if _, err := sharedAuthority(t.Context(), client, dir, "prod/eu"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(authorityFiles(filepath.Join(dir, "prod%2Feu"))[corev1.TLSCertKey]); err != nil {
		t.Error(err)
	}
}
