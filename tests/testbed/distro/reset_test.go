package distro

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServerFlags_RefuseWhatTheRealOnesRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		flags  ServerFlags
		config Config
		want   string
	}{
		"a start":                         {ServerFlags{}, Config{}, ""},
		"a reset":                         {ServerFlags{ClusterReset: true}, Config{Token: "t"}, ""},
		"a snapshot without a reset":      {ServerFlags{RestorePath: "x"}, Config{Token: "t"}, "--cluster-reset required"},
		"a reset of one that joins":       {ServerFlags{ClusterReset: true}, Config{Token: "t", Server: "https://a:1"}, "server URL is set"},
		"a reset without etcd":            {ServerFlags{ClusterReset: true}, Config{Token: "t", DisableEtcd: true}, "--disable-etcd"},
		"a reset without the token":       {ServerFlags{ClusterReset: true}, Config{}, "without the token"},
		"S3 on the command line":          {ServerFlags{S3: true}, Config{}, "S3"},
		"S3 in the configuration":         {ServerFlags{}, Config{EtcdS3: true}, "S3"},
		"arguments of etcd come together": {ServerFlags{EtcdArg: []string{"b=2"}}, Config{EtcdArg: values{"a=1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.flags.apply(test.config)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if len(got.EtcdArg) != len(test.flags.EtcdArg)+len(test.config.EtcdArg) {
				t.Errorf("arguments of etcd: %v", got.EtcdArg)
			}
		})
	}
}

// serverIn is a server with these files in its folder.
func serverIn(t *testing.T, config Config, files ...string) (*run, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	r := &run{Options: Options{Runtime: RKE2, Log: &log}, layout: NewLayout(RKE2, t.TempDir()), config: config}
	for _, file := range files {
		if err := writeFile(r.layout.server(file), []byte(file)); err != nil {
			t.Fatal(err)
		}
	}
	return r, &log
}

func TestAfterReset_TombstonePutsTheDataAside(t *testing.T) {
	for name, test := range map[string]struct {
		config    Config
		files     []string
		wantAside int
		wantData  bool
	}{
		"no tombstone":        {Config{}, []string{"db/etcd/name", "db/etcd/voter"}, 0, true},
		"a tombstone":         {Config{}, []string{"db/etcd/name", "db/etcd/voter", "db/etcd/tombstone", "db/reset-flag"}, 1, false},
		"a server without it": {Config{DisableEtcd: true}, []string{"db/etcd/tombstone", "db/etcd/name"}, 0, true},
		"nothing at all":      {Config{}, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, log := serverIn(t, test.config, test.files...)
			if err := r.afterReset(); err != nil {
				t.Fatal(err)
			}
			aside, _ := filepath.Glob(r.layout.etcdData() + "-old-*/name")
			_, err := os.Stat(r.layout.etcdMemberName())
			if len(aside) != test.wantAside || (err == nil) != test.wantData {
				t.Errorf("%d put aside, data there: %v; it said %q", len(aside), err, log)
			}
			if _, err := os.Stat(r.layout.resetFlag()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the reset flag is there: %v", err)
			}
			if r.layout.votes() && test.wantAside > 0 {
				t.Error("a server whose data were put aside does not join as a new one")
			}
		})
	}
}

func TestSetAside_KeepsTheLast(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "etcd")
	for range 8 {
		if err := writeFile(filepath.Join(folder, "name"), nil); err != nil {
			t.Fatal(err)
		}
		if err := setAside(folder); err != nil {
			t.Fatal(err)
		}
	}
	if aside, _ := filepath.Glob(folder + "-old-*"); len(aside) != 5 {
		t.Errorf("put aside: %v", aside)
	}
}

func TestMayReset_NotTwiceWithoutASnapshot(t *testing.T) {
	r, _ := serverIn(t, Config{}, "db/reset-flag", "db/etcd/member/x")
	if err := r.mayReset(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "was previously reset") {
		t.Errorf("the cluster may be reset twice: %v", err)
	}
}

// What servers share is the same on each, keys in use are never replaced, and what was restored replaces everything.
func TestBootstrap_IsWrittenForItsPurpose(t *testing.T) {
	all := bootstrap{"cred/encryption-config.json": []byte("given")}
	for _, name := range bootstrapRequired {
		all[name] = []byte("given")
	}
	const config = "cred/encryption-config.json"
	for name, test := range map[string]struct {
		has   []string
		write func(bootstrap, Layout) error
		want  map[string]string
	}{
		"a new server":                {nil, bootstrap.writeMissing, map[string]string{"tls/server-ca.crt": "given", config: "given"}},
		"keys in use stay":            {[]string{"tls/server-ca.crt", config}, bootstrap.writeMissing, map[string]string{"tls/server-ca.crt": "tls/server-ca.crt", config: "given"}},
		"only what changes":           {[]string{"tls/server-ca.crt", config}, bootstrap.writeChanging, map[string]string{"tls/server-ca.crt": "tls/server-ca.crt", config: "given"}},
		"a restore replaces all":      {[]string{"tls/server-ca.crt", config}, bootstrap.writeAll, map[string]string{"tls/server-ca.crt": "given", config: "given"}},
		"and removes what came later": {[]string{"cred/encryption-state.json"}, bootstrap.writeAll, map[string]string{"cred/encryption-state.json": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := serverIn(t, Config{}, test.has...)
			if err := test.write(all, r.layout); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for file := range test.want {
				data, err := os.ReadFile(r.layout.server(file))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				got[file] = string(data)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
	if err := (bootstrap{}).writeMissing(NewLayout(RKE2, t.TempDir())); err == nil {
		t.Error("bootstrap data that leave out an authority are written")
	}
}

func TestBootstrap_OpensWithItsTokenOnly(t *testing.T) {
	data := bootstrap{"tls/server-ca.crt": []byte("x")}
	sealed, err := sealBootstrap("t1", data)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := openBootstrap("t1", sealed); err != nil || !cmp.Equal(got, data) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := openBootstrap("t2", sealed); err == nil {
		t.Error("another token opens the bootstrap data")
	}
	if one, other := (bootstrapStore{token: "t1"}).key(), (bootstrapStore{token: "t2"}).key(); one == other || len(one) != len(bootstrapPrefix)+12 {
		t.Errorf("keys %s and %s", one, other)
	}
}
