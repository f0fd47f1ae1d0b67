package entrypoint_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-io/drover/pkg/local/machinebinary/entrypoint"
)

func TestParseInvocation(t *testing.T) {
	in := entrypoint.ParseInvocation([]string{
		"--driver-download-url=https://example.org/d?x=1", "--driver-hash=ab", "--secret-name=s", "create",
		"--sim-tags=a=b,c=d", "--sim-empty=", "--sim-bool", "name=odd",
	})
	want := []string{"--secret-name", "s", "create", "--sim-tags", "a=b,c=d", "--sim-empty", "", "--sim-bool",
		"name=odd"}
	if !slices.Equal(in.Arguments, want) {
		t.Errorf("arguments are %q, want %q", in.Arguments, want)
	}
	if in.DriverURL != "https://example.org/d?x=1" || in.DriverHash != "ab" {
		t.Errorf("driver is %q with hash %q", in.DriverURL, in.DriverHash)
	}
}

var program = []byte("\x7fELF pretended program")

func zipped(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for _, member := range []struct {
		name    string
		content []byte
	}{{"README", []byte("read me")}, {name, content}} {
		w, err := archive.Create(member.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(member.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func tarred(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)),
		Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestInstallDriver(t *testing.T) {
	tests := map[string]struct {
		file    string
		content []byte
		hash    string
		want    string
		wantErr string
	}{
		"a bare program is named after the download": {
			file: "docker-machine-driver-sim-linux_amd64", content: program, want: "docker-machine-driver-sim",
		},
		"a zip contains the program and other files": {
			file: "release.zip", content: zipped(t, "docker-machine-driver-sim", program),
			want: "docker-machine-driver-sim",
		},
		"a tar contains the program in a folder": {
			file: "release.tgz", content: tarred(t, "./dist/docker-machine-driver-sim.v1", program),
			want: "docker-machine-driver-sim",
		},
		"a wrong hash is refused": {
			file: "docker-machine-driver-sim", content: program, hash: strings.Repeat("0", 64),
			wantErr: "the driver's SHA-256 is",
		},
		"a login page instead of a driver is refused": {
			file: "docker-machine-driver-sim", content: []byte("<html>"),
			wantErr: "must be an ELF program, a zip or a gzipped tar",
		},
		"a program of another name is refused": {
			file: "sim", content: program, wantErr: `file name is "sim"`,
		},
		"a zip without a driver is refused": {
			file: "release.zip", content: zipped(t, "docker-machine-driver-sim", []byte("#!/bin/sh")),
			wantErr: "zip must contain a program",
		},
		"a tar without a driver is refused": {
			file: "release.tgz", content: tarred(t, "other", program), wantErr: "tar must contain a program",
		},
		"a truncated tar is refused": {
			file: "release.tgz", content: tarred(t, "docker-machine-driver-sim", program)[:20], wantErr: "driver's tar",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(test.content)
			}))
			defer server.Close()
			hash := test.hash
			if hash == "" {
				sum := sha256.Sum256(test.content)
				hash = strings.ToUpper(hex.EncodeToString(sum[:]))
			}
			got, err := entrypoint.InstallDriver(t.Context(), server.Client(), server.URL+"/"+test.file+"?token=x",
				hash, t.TempDir(), 0)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error is %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(got)
			if err != nil || filepath.Base(got) != test.want || !bytes.Equal(content, program) {
				t.Errorf("installed %s with %q, %v; want %s", got, content, err, test.want)
			}
		})
	}
}

func TestInstallDriver_TriesAgainWhileTheServerRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		status    int
		wantCalls int32
	}{
		"unavailable": {http.StatusServiceUnavailable, 3},
		"not found":   {http.StatusNotFound, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) < 3 {
					w.WriteHeader(test.status)
					return
				}
				_, _ = w.Write(program)
			}))
			defer server.Close()
			_, err := entrypoint.InstallDriver(t.Context(), server.Client(), server.URL+"/docker-machine-driver-sim",
				"", t.TempDir(), 0)
			if got := calls.Load(); got != test.wantCalls {
				t.Errorf("%d requests, want %d", got, test.wantCalls)
			}
			if (err == nil) != (test.status == http.StatusServiceUnavailable) {
				t.Errorf("error is %v", err)
			}
			calls.Store(-10)
			for _, location := range []string{server.URL, "http://127.0.0.1:1"} {
				_, err = entrypoint.InstallDriver(t.Context(), server.Client(), location+
					"/docker-machine-driver-sim?sig=hunter2", "", t.TempDir(), 0)
				if err == nil || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error must contain the URL without its signature: %v", err)
				}
			}
		})
	}
}

// fakeMachine replaces rancher-machine and prints its arguments.
const fakeMachine = "#!/bin/sh\necho \"args: $*\"\nfor d in docker-machine-driver-sim; do command -v $d >/dev/null " +
	"&& echo has $d; done\nexit 3\n"

func TestRun(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(program)
	}))
	defer server.Close()
	directory := t.TempDir()
	machine := filepath.Join(directory, "rancher-machine")
	if err := os.WriteFile(machine, []byte(fakeMachine), 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(directory, "termination-log")
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var output bytes.Buffer
		code := entrypoint.Run(t.Context(), entrypoint.Config{
			Args: args, Environment: []string{"PATH=" + os.Getenv("PATH")}, Program: machine,
			DriverDirectory: t.TempDir(),
			TerminationLog:  log, Output: &output, Client: server.Client(),
		})
		return code, output.String()
	}

	code, output := run("--driver-download-url="+server.URL+"/docker-machine-driver-sim", "--driver-hash=", "create",
		"--driver=sim", "m1")
	if code != 3 {
		t.Errorf("exit status is %d, want that of rancher-machine, 3", code)
	}
	for _, want := range []string{"args: create --driver sim m1", "has docker-machine-driver-sim"} {
		if !strings.Contains(output, want) {
			t.Errorf("output must contain %q:\n%s", want, output)
		}
	}
	if logged, err := os.ReadFile(log); err != nil || string(logged) != output {
		t.Errorf("termination log is %q (%v), want the output", logged, err)
	}

	code, output = run("--driver-download-url="+server.URL+"/docker-machine-driver-sim", "--driver-hash="+
		strings.Repeat("0", 64), "create", "m1")
	if code != 1 || strings.Contains(output, "args:") {
		t.Errorf("a driver with a wrong hash: exit status %d, output %q; want 1 and no start", code, output)
	}
}

func TestRun_EndsWithThePod(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "rancher-machine")
	script := "#!/bin/sh\ntrap 'echo stopped; exit 7' TERM\necho started\nwhile :; do sleep 0.05; done\n"
	if err := os.WriteFile(machine, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	output := writerFunc(func(p []byte) {
		if bytes.Contains(p, []byte("started")) {
			cancel()
		}
	})
	code := entrypoint.Run(ctx, entrypoint.Config{Args: []string{"create"}, Program: machine, Environment: os.Environ(),
		Output: output})
	if code != 7 {
		t.Errorf("exit status is %d, want 7: rancher-machine must get SIGTERM and time to end", code)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
