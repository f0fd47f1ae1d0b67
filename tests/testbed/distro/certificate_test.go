package distro

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// certificateFiles creates a node with its certificates, and returns its files with their content.
func certificateFiles(t *testing.T, l Layout, server bool) map[string]string {
	t.Helper()
	node, err := NewNode(Config{NodeName: "n1", NodeIP: values{"192.0.2.1"}})
	if err != nil {
		t.Fatal(err)
	}
	of := l
	if !server {
		of.Data = t.TempDir() // a worker's certificates are made elsewhere
	}
	if err := ensureServerCerts(of, node, Config{}); err != nil {
		t.Fatal(err)
	}
	files, err := issueNode(of, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.write(l); err != nil {
		t.Fatal(err)
	}
	return filesBelow(t, l.Data)
}

func filesBelow(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRotateCertificates_MovesCertificatesOfServices(t *testing.T) {
	tests := map[string]struct {
		server   bool
		services []string
		// gone are certificates without their suffixes, or folders that lose all certificates except authorities.
		gone []string
	}{
		"all certificates of a server": {true, nil, []string{"server/tls", "agent"}},
		"of the API server": {true, []string{"api-server"},
			[]string{"server/tls/client-kube-apiserver", "server/tls/serving-kube-apiserver"}},
		"etcd's": {true, []string{"etcd"},
			[]string{"server/tls/etcd/client", "server/tls/etcd/server-client", "server/tls/etcd/peer-server-client"}},
		"of a server's kubelet": {true, []string{"kubelet"},
			[]string{"agent/client-kubelet", "agent/serving-kubelet"}},
		"of two services": {true, []string{"scheduler", "rke2-server"},
			[]string{"server/tls/client-scheduler", "server/tls/dynamic-cert"}},
		"all certificates of a worker": {false, nil, []string{"agent"}},
		"of a worker's kube-proxy":     {false, []string{"kube-proxy"}, []string{"agent/client-kube-proxy"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewLayout(RKE2, t.TempDir())
			before := certificateFiles(t, l, test.server)
			if err := rotateCertificates(l, test.services, time.Unix(1700000000, 0), &bytes.Buffer{}); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			backup := "agent/tls-1700000000"
			if test.server {
				backup = "server/tls-1700000000"
			}
			for file, content := range before {
				goes := slices.ContainsFunc(test.gone, func(gone string) bool {
					return strings.TrimSuffix(strings.TrimSuffix(file, ".crt"), ".key") == gone ||
						strings.HasPrefix(file, gone+"/") && !shared(file)
				})
				if !goes {
					want[file] = content
				}
				switch {
				case strings.HasPrefix(file, "server/tls/"):
					want[backup+strings.TrimPrefix(file, "server/tls")] = content
				case goes:
					want[backup+strings.TrimPrefix(file, "agent")] = content
				}
			}
			if diff := cmp.Diff(want, filesBelow(t, l.Data)); diff != "" {
				t.Errorf("files after the rotation (-want +got):\n%s", diff)
			}
		})
	}
}

// shared reports whether a file is an authority or a key of the cluster.
func shared(file string) bool {
	return strings.Contains(file, "-ca.") || strings.HasPrefix(filepath.Base(file), "service.")
}

func TestRotateCertificates_RefusesUnknownServices(t *testing.T) {
	l := NewLayout(RKE2, t.TempDir())
	before := certificateFiles(t, l, true)
	err := rotateCertificates(l, []string{"etcd", "k3s-server"}, time.Now(), &bytes.Buffer{})
	if err == nil || err.Error() != "service k3s-server is not recognized" {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, filesBelow(t, l.Data)); diff != "" {
		t.Errorf("files have changed (-before +after):\n%s", diff)
	}
}

func TestIssueNode_IssuesNewCertificates(t *testing.T) {
	l := NewLayout(K3s, t.TempDir())
	before := certificateFiles(t, l, true)
	after := certificateFiles(t, l, true)
	for _, file := range []string{"client-kubelet.crt", "serving-kubelet.crt", "client-kube-proxy.crt",
		"client-k3s-controller.crt"} {
		if file := "agent/" + file; before[file] == "" || before[file] == after[file] {
			t.Errorf("%s has not changed", file)
		}
	}
	for file, content := range after {
		if strings.HasPrefix(file, "server/") && before[file] != content {
			t.Errorf("%s has changed, or is stored on the node", file)
		}
	}
}
