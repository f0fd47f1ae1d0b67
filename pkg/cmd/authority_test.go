package cmd

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestSharedAuthority_ReplicasAndRestarts: machines that were told one authority are served by every replica, at its first
// start, at the next one and with an empty folder.
func TestSharedAuthority_ReplicasAndRestarts(t *testing.T) {
	client := fake.NewClientset()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	found := make([]string, len(dirs))
	var replicas sync.WaitGroup
	for i, dir := range dirs {
		replicas.Go(func() {
			ca, err := sharedAuthority(t.Context(), client, dir)
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
		ca, err := sharedAuthority(t.Context(), client, dir)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(ca.CertPEM))
		info, err := os.Stat(authorityFiles(dir)[corev1.TLSPrivateKeyKey])
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

// TestSharedAuthority_WhatWasThereStays: an installation whose one replica had an authority of its own keeps it.
func TestSharedAuthority_WhatWasThereStays(t *testing.T) {
	dir := t.TempDir()
	before, err := sharedAuthority(t.Context(), fake.NewClientset(), dir)
	if err != nil {
		t.Fatal(err)
	}
	after, err := sharedAuthority(t.Context(), fake.NewClientset(), dir)
	if err != nil || string(after.CertPEM) != string(before.CertPEM) {
		t.Errorf("another authority, %v", err)
	}
}

// TestSharedAuthority_DamagedSecretIsNotReplaced: every machine would lose its server.
func TestSharedAuthority_DamagedSecretIsNotReplaced(t *testing.T) {
	damaged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: authorityNamespace, Name: authorityName}}
	if _, err := sharedAuthority(t.Context(), fake.NewClientset(damaged), t.TempDir()); err == nil {
		t.Error("a Secret without a key is taken")
	}
}
