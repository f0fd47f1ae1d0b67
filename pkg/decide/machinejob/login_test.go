package machinejob_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// stateOf is a state archive with these members: names and contents in turn.
func stateOf(t *testing.T, members ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for i := 0; i < len(members); i += 2 {
		header := &tar.Header{Name: members[i], Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(members[i+1]))}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(members[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestDecodeLogin(t *testing.T) {
	const folder = "/home/machine/.docker/machine/machines/demo-1/"
	for name, c := range map[string]struct {
		archive []byte
		want    machinejob.Login
		wantErr string
	}{
		"defaults": {
			archive: stateOf(t, folder+"config.json", `{"DriverName":"d","Driver":{"IPAddress":"192.0.2.1"}}`,
				folder+"id_rsa", "KEY", folder+"id_rsa.pub", "PUBLIC"),
			want: machinejob.Login{User: "root", Port: 22, Addresses: []string{"192.0.2.1"}, Key: []byte("KEY")},
		},
		"everything recorded, the key before the configuration": {
			archive: stateOf(t, folder+"deploy", "KEY", folder+"id_rsa", "OTHER", folder+"config.json",
				`{"Driver":{"IPAddress":"192.0.2.1","PrivateIPAddress":"10.0.0.1","IPv6Address":"2001:db8::1",`+
					`"SSHUser":"ubuntu","SSHPort":2222,"SSHKeyPath":"/elsewhere/demo-1/deploy"}}`),
			want: machinejob.Login{User: "ubuntu", Port: 2222,
				Addresses: []string{"192.0.2.1", "2001:db8::1", "10.0.0.1"}, Key: []byte("KEY")},
		},
		"the same address twice, and names without a root": {
			archive: stateOf(t, "./machines/x/config.json",
				`{"Driver":{"IPAddress":"10.0.0.1","PrivateIPAddress":"10.0.0.1"}}`, "machines/x/id_rsa", "KEY"),
			want: machinejob.Login{User: "root", Port: 22, Addresses: []string{"10.0.0.1"}, Key: []byte("KEY")},
		},
		"nothing":        {wantErr: "has created no host yet"},
		"an empty state": {archive: stateOf(t), wantErr: "has created no host yet"},
		"no archive":     {archive: []byte("hunter2"), wantErr: "must be a gzipped tar"},
		"a cut archive": {archive: stateOf(t, folder+"config.json", strings.Repeat("hunter2", 99))[:60],
			wantErr: "must be a gzipped tar"},
		"no JSON":        {archive: stateOf(t, folder+"config.json", "hunter2"), wantErr: "must be JSON"},
		"a wrong field":  {archive: stateOf(t, folder+"config.json", `{"Driver":{"SSHPort":"hunter2"}}`), wantErr: "JSON"},
		"no private key": {archive: stateOf(t, folder+"config.json", "{}"), wantErr: "no private key"},
		"the key of another machine": {archive: stateOf(t, folder+"config.json", "{}", "/machines/other/id_rsa", "KEY"),
			wantErr: "no private key"},
		"a configuration elsewhere": {archive: stateOf(t, "/certs/x/config.json", "{}"), wantErr: "no host yet"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := machinejob.DecodeLogin(c.archive)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("login (-want +got):\n%s%v", diff, err)
			}
		})
	}
}
