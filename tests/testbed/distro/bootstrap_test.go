package distro

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// All servers get the same shared files. Keys in use are never replaced, and a restore replaces every file.
func TestBootstrap_WritesForEachPurpose(t *testing.T) {
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
		"a new server": {nil, bootstrap.writeMissing,
			map[string]string{"tls/server-ca.crt": "given", config: "given"}},
		"keys in use are kept": {[]string{"tls/server-ca.crt", config}, bootstrap.writeMissing,
			map[string]string{"tls/server-ca.crt": "tls/server-ca.crt", config: "given"}},
		"only the changed keys": {[]string{"tls/server-ca.crt", config}, bootstrap.writeChanging,
			map[string]string{"tls/server-ca.crt": "tls/server-ca.crt", config: "given"}},
		"a restore replaces all files": {[]string{"tls/server-ca.crt", config}, bootstrap.writeAll,
			map[string]string{"tls/server-ca.crt": "given", config: "given"}},
		"a restore removes newer files": {[]string{"cred/encryption-state.json"}, bootstrap.writeAll,
			map[string]string{"cred/encryption-state.json": ""}},
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
		t.Error("bootstrap data without an authority are written")
	}
}

// A server that ended before it saved its bootstrap data starts again, and keeps its files.
func TestReplaceBootstrap_WithoutSavedData(t *testing.T) {
	r, log := serverIn(t, Config{}, "tls/server-ca.crt")
	if err := r.replaceBootstrap(nil, bootstrap(nil).writeAll); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(r.layout.server("tls/server-ca.crt")); err != nil ||
		string(data) != "tls/server-ca.crt" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if !strings.Contains(log.String(), "no bootstrap data") {
		t.Errorf("the log is %q", log)
	}
	incomplete := bootstrap{"tls/server-ca.crt": []byte("x")}
	if err := r.replaceBootstrap(incomplete, incomplete.writeAll); err == nil {
		t.Error("incomplete bootstrap data are written")
	}
}

func TestBootstrap_OpensOnlyWithItsToken(t *testing.T) {
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
	if one, other := (bootstrapStore{token: "t1"}).key(), (bootstrapStore{token: "t2"}).key(); one == other ||
		len(one) != len(bootstrapPrefix)+12 {
		t.Errorf("keys %s and %s", one, other)
	}
}
