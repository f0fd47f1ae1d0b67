package releases_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/releases"
)

func embedded(t *testing.T) releases.Table {
	t.Helper()
	table, err := releases.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestEmbedded_KnowsTheKeysOfPlans(t *testing.T) {
	t.Parallel()
	table := embedded(t)
	onServers := []string{
		"agent-token", "token", "server", "tls-san", "advertise-address", "node-ip", "node-external-ip", "node-label",
		"node-taint",
		"node-name", "private-registry", "system-default-registry", "data-dir", "disable-etcd", "disable-apiserver",
		"disable-scheduler", "disable-controller-manager", "etcd-disable-snapshots", "etcd-snapshot-retention",
		"etcd-snapshot-schedule-cron", "etcd-s3", "etcd-s3-bucket", "etcd-s3-access-key", "etcd-s3-secret-key",
		"etcd-s3-region",
		"etcd-s3-folder", "etcd-s3-endpoint", "etcd-s3-endpoint-ca", "etcd-s3-skip-ssl-verify", "etcd-s3-retention",
		"kube-apiserver-arg", "kube-controller-manager-arg", "kube-scheduler-arg", "kubelet-arg",
	}
	onWorkers := []string{"token", "server", "node-ip", "node-external-ip", "node-label", "node-taint", "node-name",
		"private-registry", "data-dir"}
	onlyIn := map[string][]string{
		"v1.36.2+rke2r1": {"cni", "profile", "kube-controller-manager-extra-mount", "kube-scheduler-extra-mount",
			"audit-policy-file", "cloud-provider-config"},
		"v1.36.2+k3s1": {"cluster-init", "flannel-conf", "https-listen-port"},
	}
	for version, keys := range onlyIn {
		release := table.Release(version)
		if !release.Known {
			t.Errorf("release %s is unknown", version)
		}
		for _, key := range append(keys, onServers...) {
			if _, ok := release.Arg(key, true); !ok {
				t.Errorf("key %s is unknown on servers of %s", key, version)
			}
		}
		for _, key := range onWorkers {
			if _, ok := release.Arg(key, false); !ok {
				t.Errorf("key %s is unknown on workers of %s", key, version)
			}
		}
		for key := range release.AgentArgs {
			if _, both := release.ServerArgs[key]; both {
				t.Errorf("key %s of %s is in both tables: keys of every node belong only in agentArgs", key, version)
			}
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	table, err := releases.Parse(strings.NewReader(`
distributions:
  rke2:
    minors: ["1.35", "1.36"]
    serverArgs: {old: {type: string, until: "1.35"}, new: {type: boolean, since: "1.36"}, always: array}
    agentArgs: {node-ip: array}
    charts: [rke2-calico]
    features: {encryption-key-rotation: "2.0.0"}
`))
	if err != nil {
		t.Fatal(err)
	}
	agent := map[string]distro.ArgKind{"node-ip": distro.ArgArray}
	for name, tc := range map[string]struct {
		version string
		want    distro.Release
	}{
		"a minor before a key": {version: "v1.35.1+rke2r2", want: distro.Release{
			Version: "v1.35.1+rke2r2", Known: true, AgentArgs: agent,
			ServerArgs: map[string]distro.ArgKind{"old": distro.ArgString, "always": distro.ArgArray},
			Charts:     []string{"rke2-calico"}, Features: map[string]string{"encryption-key-rotation": "2.0.0"},
		}},
		"a minor after a key": {version: "1.36.0+rke2r1", want: distro.Release{
			Version: "1.36.0+rke2r1", Known: true, AgentArgs: agent,
			ServerArgs: map[string]distro.ArgKind{"new": distro.ArgBool, "always": distro.ArgArray},
			Charts:     []string{"rke2-calico"}, Features: map[string]string{"encryption-key-rotation": "2.0.0"},
		}},
		"an undescribed minor gets the union": {version: "v1.99.0+rke2r1", want: distro.Release{
			Version: "v1.99.0+rke2r1", AgentArgs: agent,
			ServerArgs: map[string]distro.ArgKind{"old": distro.ArgString, "new": distro.ArgBool,
				"always": distro.ArgArray},
		}},
		"no version": {version: "rke2", want: distro.Release{
			Version: "rke2", AgentArgs: agent,
			ServerArgs: map[string]distro.ArgKind{"old": distro.ArgString, "new": distro.ArgBool,
				"always": distro.ArgArray},
		}},
		"an undescribed distribution": {version: "v1.36.0+k3s1", want: distro.Release{
			Version: "v1.36.0+k3s1", AgentArgs: map[string]distro.ArgKind{}, ServerArgs: map[string]distro.ArgKind{},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, table.Release(tc.version)); diff != "" {
				t.Errorf("release (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_RefusesWithTheKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ data, want string }{
		"another distribution": {`distributions: {kubeadm: {}}`, "distributions[kubeadm]"},
		"an unknown type":      {`distributions: {k3s: {serverArgs: {x: map}}}`, "distributions[k3s].serverArgs[x]"},
		"a patch as minor":     {`distributions: {k3s: {minors: ["1.36.1"]}}`, "minors[0]"},
		"an invalid bound":     {`distributions: {rke2: {agentArgs: {x: {type: string, since: new}}}}`, "agentArgs[x]"},
		"an unknown field":     {`distributions: {rke2: {args: {}}}`, "args"},
		"a field in the long form": {
			`distributions: {rke2: {agentArgs: {x: {type: string, from: "1.36"}}}}`, "from",
		},
		"not YAML": {`{`, "decode release data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := releases.Parse(strings.NewReader(tc.data))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %q", err, tc.want)
			}
		})
	}
}

func TestParse_RefusesTooMuch(t *testing.T) {
	t.Parallel()
	if _, err := releases.Parse(strings.NewReader(strings.Repeat("#", 9<<20))); err == nil {
		t.Error("nine megabytes are accepted")
	}
}

func TestLoad_ExtendsTheEmbeddedTable(t *testing.T) {
	t.Parallel()
	const extension = `distributions: {k3s: {minors: ["1.37"], serverArgs: {brand-new: {type: boolean, since: "1.37"}}, charts: [extra]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/data.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, extension)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "data.yaml")
	if err := os.WriteFile(file, []byte(extension), 0o600); err != nil {
		t.Fatal(err)
	}
	open := releases.FromFileOrURL(server.Client())
	for _, source := range []string{file, server.URL + "/data.yaml"} {
		table, err := releases.Load(t.Context(), source, open)
		if err != nil {
			t.Fatal(err)
		}
		next, now := table.Release("v1.37.0+k3s1"), table.Release("v1.36.0+k3s1")
		if _, ok := next.Arg("brand-new", true); !ok || !next.Known || !next.HasChart("extra") ||
			!next.HasChart("traefik") {
			t.Errorf("%s: the new minor must be described: %+v", source, next)
		}
		if _, ok := now.Arg("brand-new", true); ok {
			t.Errorf("%s: the new key must not apply to an older minor", source)
		}
		if embedded(t).Release("v1.37.0+k3s1").Known {
			t.Error("loading changed the embedded table")
		}
	}
}

func TestLoad_Errors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	withSecret := strings.Replace(server.URL, "http://", "http://user:PASSWORD@", 1)
	for name, source := range map[string]string{
		"no such file":            filepath.Join(t.TempDir(), "none"),
		"an error status":         withSecret,
		"a signed URL":            server.URL + "/x?sig=PASSWORD",
		"an unsigned certificate": "http://127.0.0.1:1/?sig=PASSWORD",
		"no server":               "http://user:PASSWORD@127.0.0.1:1/",
		"an unusable URL":         "http://user:PASSWORD@[::1/",
		"a directory":             t.TempDir(),
		"an unusable host":        "https://user:PASSWORD@/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := releases.Load(t.Context(), source, releases.FromFileOrURL(server.Client()))
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "PASSWORD") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

func TestLoad_WithoutSourceReadsNoFile(t *testing.T) {
	t.Parallel()
	table, err := releases.Load(t.Context(), "", func(context.Context, string) (io.ReadCloser, error) {
		return nil, errors.New("opened")
	})
	if err != nil || !table.Release("v1.36.0+k3s1").Known {
		t.Errorf("embedded table: %v", err)
	}
}
