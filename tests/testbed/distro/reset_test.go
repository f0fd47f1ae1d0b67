package distro

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/local/localfile"
)

func TestServerFlags_RefuseInvalidFlags(t *testing.T) {
	for name, test := range map[string]struct {
		flags  ServerFlags
		config Config
		want   string
	}{
		"a start":                    {ServerFlags{}, Config{}, ""},
		"a reset":                    {ServerFlags{ClusterReset: true}, Config{Token: "t"}, ""},
		"a snapshot without a reset": {ServerFlags{RestorePath: "x"}, Config{Token: "t"}, "--cluster-reset required"},
		"a reset of a joining server": {ServerFlags{ClusterReset: true}, Config{Token: "t", Server: "https://a:1"},
			"server URL is set"},
		"a reset without etcd": {ServerFlags{ClusterReset: true}, Config{Token: "t", DisableEtcd: true},
			"--disable-etcd"},
		"a reset without the token": {ServerFlags{ClusterReset: true}, Config{}, "without the token"},
		"a setting of S3":           {ServerFlags{Settings: Settings{"etcd-s3-retention": 2}}, Config{}, ""},
		"an invalid setting of S3": {ServerFlags{Settings: Settings{"etcd-s3-retention": "x"}}, Config{},
			"settings"},
		"arguments of etcd are merged": {ServerFlags{EtcdArg: []string{"b=2"}}, Config{EtcdArg: values{"a=1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.flags.apply(test.config)
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if len(got.EtcdArg) != len(test.flags.EtcdArg)+len(test.config.EtcdArg) {
				t.Errorf("arguments of etcd: %v", got.EtcdArg)
			}
		})
	}
}

// serverIn returns a server with these files in its folder.
func serverIn(t *testing.T, config Config, files ...string) (*run, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	r := &run{Options: Options{Runtime: RKE2, Log: &log}, layout: NewLayout(RKE2, t.TempDir()), config: config}
	for _, file := range files {
		if err := localfile.Write(r.layout.server(file), []byte(file)); err != nil {
			t.Fatal(err)
		}
	}
	return r, &log
}

func TestAfterReset_TombstoneMovesTheDataAway(t *testing.T) {
	for name, test := range map[string]struct {
		config    Config
		files     []string
		wantAside int
		wantData  bool
	}{
		"without a tombstone": {Config{}, []string{"db/etcd/name", "db/etcd/voter"}, 0, true},
		"a tombstone": {Config{}, []string{"db/etcd/name", "db/etcd/voter", "db/etcd/tombstone",
			"db/reset-flag"}, 1, false},
		"a server without etcd": {Config{DisableEtcd: true}, []string{"db/etcd/tombstone", "db/etcd/name"}, 0, true},
		"without data":          {Config{}, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, log := serverIn(t, test.config, test.files...)
			if err := r.afterReset(); err != nil {
				t.Fatal(err)
			}
			aside, _ := filepath.Glob(r.layout.etcdData() + "-old-*/name")
			_, err := os.Stat(r.layout.etcdMemberName())
			if len(aside) != test.wantAside || (err == nil) != test.wantData {
				t.Errorf("%d moved folders, data exist: %v; output %q", len(aside), err, log)
			}
			if _, err := os.Stat(r.layout.resetFlag()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the reset flag exists: %v", err)
			}
			if r.layout.votes() && test.wantAside > 0 {
				t.Error("a server without its data does not join as a new one")
			}
		})
	}
}

func TestSetAside_KeepsTheLast(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "etcd")
	for range 8 {
		if err := localfile.Write(filepath.Join(folder, "name"), nil); err != nil {
			t.Fatal(err)
		}
		if err := setAside(folder); err != nil {
			t.Fatal(err)
		}
	}
	if aside, _ := filepath.Glob(folder + "-old-*"); len(aside) != 5 {
		t.Errorf("moved folders: %v", aside)
	}
}

func TestMayReset_NotTwiceWithoutASnapshot(t *testing.T) {
	r, _ := serverIn(t, Config{}, "db/reset-flag", "db/etcd/member/x")
	if err := r.mayReset(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "was previously reset") {
		t.Errorf("the cluster may be reset twice: %v", err)
	}
}
