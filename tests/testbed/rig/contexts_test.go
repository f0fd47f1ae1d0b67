package rig

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestContexts_AreAddedAndRemoved(t *testing.T) {
	const another = `apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: "https://work.example.com"}}]
users: [{name: work, user: {token: secret}}]
contexts: [{name: work, context: {cluster: work, user: work}}]
`
	for name, test := range map[string]struct {
		files           []string // contents of the files in KUBECONFIG, "" for a missing one
		added, removed  []string
		current, failed string
	}{
		"without a kubeconfig": {files: []string{""}, added: []string{"drover-q"}},
		"with a kubeconfig of other clusters": {files: []string{another}, added: []string{"drover-q", "work"},
			removed: []string{"work"}, current: "work"},
		"with several kubeconfigs": {files: []string{"", another}, added: []string{"drover-q", "work"},
			removed: []string{"work"}, current: "work"},
		"an older context of that name": {
			files: []string{strings.ReplaceAll(another, "work", "drover-q")}, added: []string{"drover-q"},
			current: "drover-q",
		},
		"with an invalid kubeconfig": {files: []string{"clusters: {"}, failed: "read your kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var paths []string
			for i, content := range test.files {
				path := filepath.Join(dir, string(rune('a'+i)), "config")
				paths = append(paths, path)
				if content == "" {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("KUBECONFIG", strings.Join(paths, string(filepath.ListSeparator)))
			o := Options{Name: "q", Owner: &Owner{UID: os.Geteuid(), GID: os.Getegid()}}
			one := singleContext("drover-q", &clientcmdapi.Cluster{Server: "https://127.0.0.1:16443"},
				&clientcmdapi.AuthInfo{Token: "token"})
			if err := o.mergeContext("drover-q", one); test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Fatalf("got error %v, want %q", err, test.failed)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			config := userKubeconfig(t)
			if diff := cmp.Diff(test.added, names(config)); diff != "" || config.CurrentContext != test.current {
				t.Errorf("the current context is %q, want %q; contexts (-want +got):\n%s", config.CurrentContext,
					test.current, diff)
			}
			if got := config.Clusters["drover-q"].Server; got != "https://127.0.0.1:16443" {
				t.Errorf("the context has the server %s", got)
			}
			if err := RemoveContexts(o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.removed, names(userKubeconfig(t))); diff != "" {
				t.Errorf("contexts after the removal (-want +got):\n%s", diff)
			}
		})
	}
}

func userKubeconfig(t *testing.T) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.NewDefaultPathOptions().GetStartingConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func names(config *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Contexts)) }
