package agent

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// newTestApplier returns an applier and its temporary directory.
func newTestApplier(t *testing.T) (*applier, string) {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"interlock", "applied", "images"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := newApplier(Options{
		Config: Config{
			WorkDirectory: filepath.Join(dir, "work"), AppliedPlanDirectory: filepath.Join(dir, "applied"),
			InterlockDirectory:  filepath.Join(dir, "interlock"),
			ImagesDirectory:     filepath.Join(dir, "images"),
			AgentRegistriesFile: filepath.Join(dir, "registries.yaml"),
		},
		Environ: []string{"PATH=/usr/bin:/bin", "FROM_AGENT=yes"}, Log: quiet(), Now: time.Now,
	})
	return a, dir
}

func shell(name, script string) plan.OneTimeInstruction {
	return plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{Name: name, Command: "sh",
		Args: []string{"-c", script}}, SaveOutput: true}
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func mustApply(t *testing.T, a *applier, in applyInput) result {
	t.Helper()
	if in.checksum == "" {
		in.checksum = "sum"
	}
	r, err := a.apply(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestApply_Instructions(t *testing.T) {
	tests := map[string]struct {
		instructions []plan.OneTimeInstruction
		wantOK       bool
		wantOutput   map[string]string
	}{
		"environment of agent, plan and protocol": {
			instructions: []plan.OneTimeInstruction{func() plan.OneTimeInstruction {
				i := shell("env",
					`echo "$FROM_AGENT $A $CATTLE_AGENT_ATTEMPT_NUMBER"; [ "$PWD" = "$CATTLE_AGENT_EXECUTION_PWD" ] && [ "$PATH" = "/usr/bin:/bin:$PWD" ] && echo same`)
				i.Env = []string{"A=1", "PATH=/nowhere"}
				return i
			}()},
			wantOK: true, wantOutput: map[string]string{"env": "yes 1 4\nsame\n"},
		},
		"standard error is merged in order": {
			instructions: []plan.OneTimeInstruction{shell("both", "echo one; echo two >&2; echo three")},
			wantOK:       true, wantOutput: map[string]string{"both": "one\ntwo\nthree\n"},
		},
		"long lines are kept": {
			instructions: []plan.OneTimeInstruction{
				shell("long", "head -c 70000 /dev/zero | tr '\\0' x; echo; echo end")},
			wantOK: true, wantOutput: map[string]string{"long": strings.Repeat("x", 70000) + "\nend\n"},
		},
		"first failure stops the rest": {
			instructions: []plan.OneTimeInstruction{shell("a", "echo a"), shell("b", "echo why; exit 3"),
				shell("c", "echo c")},
			wantOutput: map[string]string{"a": "a\n", "b": "why\n",
				nodeplan.OutputFailure: `{"instruction":"b","exitCode":3}`},
		},
		"a failure is explained without saveOutput": {
			instructions: []plan.OneTimeInstruction{func() plan.OneTimeInstruction {
				i := shell("install", "echo no space left; exit 1")
				i.SaveOutput = false
				return i
			}()},
			wantOutput: map[string]string{"install": "no space left\n",
				nodeplan.OutputFailure: `{"instruction":"install","exitCode":1}`},
		},
		"command that does not exist": {
			instructions: []plan.OneTimeInstruction{
				{CommonInstruction: plan.CommonInstruction{Name: "x", Command: "no-such-command"}}},
			wantOutput: map[string]string{
				nodeplan.OutputAgentError: "find command no-such-command: file does not exist",
				nodeplan.OutputFailure:    `{"instruction":"x"}`,
			},
		},
		"output without a name is not saved": {instructions: []plan.OneTimeInstruction{shell("", "echo x")},
			wantOK: true, wantOutput: map[string]string{}},
		"a daemon that keeps the output open does not hang the plan": {
			instructions: []plan.OneTimeInstruction{shell("d", "sleep 60 & echo started")}, wantOK: true,
			wantOutput: map[string]string{"d": "started\n"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, dir := newTestApplier(t)
			r := mustApply(t, a, applyInput{plan: plan.NodePlan{Instructions: tc.instructions}, apply: true,
				attempt: 4})
			got := map[string]string{}
			for name, output := range r.output {
				got[name] = string(output)
			}
			if diff := cmp.Diff(tc.wantOutput, got); diff != "" || r.succeeded != tc.wantOK {
				t.Errorf("succeeded %v; output (-want +got):\n%s", r.succeeded, diff)
			}
			if _, err := os.Stat(filepath.Join(dir, "work")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("scratch directories remain: %v", err)
			}
			if entries, _ := os.ReadDir(filepath.Join(dir, "interlock")); len(entries) != 0 {
				t.Errorf("the interlock remains: %v", entries)
			}
			if got := a.history.newest() == "sum"; got != tc.wantOK {
				t.Errorf("recorded as applied: %v", got)
			}
		})
	}
}

func TestApply_CancelKillsTheProcessGroup(t *testing.T) {
	a, dir := newTestApplier(t)
	ctx, cancel := context.WithCancel(t.Context())
	pidFile := filepath.Join(dir, "pid")
	done := make(chan error, 1)
	go func() {
		_, err := a.apply(ctx,
			applyInput{checksum: "sum", apply: true, plan: plan.NodePlan{Instructions: []plan.OneTimeInstruction{
				shell("x", "sleep 600 & echo $! > "+pidFile+"; wait"),
			}}})
		done <- err
	}()
	var pid []byte
	waitFor(t, func() bool { pid, _ = os.ReadFile(pidFile); return len(pid) > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want the end of the context and no report", err)
	}
	waitFor(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	})
	if a.history.newest() != "" {
		t.Error("an interrupted plan counts as applied")
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
		pause(t.Context(), 10*time.Millisecond)
	}
}

func TestEndOrphan(t *testing.T) {
	a, dir := newTestApplier(t)
	started := filepath.Join(dir, "started")
	done := make(chan result, 1)
	go func() {
		r, _ := a.apply(context.Background(),
			applyInput{checksum: "sum", apply: true,
				plan: plan.NodePlan{
					Instructions: []plan.OneTimeInstruction{shell("x", "touch "+started+"; sleep 600")}}})
		done <- r
	}()
	waitFor(t, func() bool { _, err := os.Stat(started); return err == nil })
	note, err := os.ReadFile(a.runner.runningFile)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, append(bytes.Fields(note)[0], " 1"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if endOrphan(t.Context(), other) {
		t.Error("killed another process with the same id")
	}
	if !endOrphan(t.Context(), a.runner.runningFile) {
		t.Error("the orphan still runs")
	}
	if r := <-done; r.succeeded {
		t.Error("the instruction went on")
	}
	if endOrphan(t.Context(), a.runner.runningFile) {
		t.Error("an orphan was ended twice")
	}
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "file")
	uid := os.Getuid()
	write := func(files ...plan.File) error {
		for i := range files {
			files[i].UID, files[i].GID = uid, os.Getgid()
		}
		return writeFiles(files)
	}
	if err := write(plan.File{Path: path, Content: b64("one")},
		plan.File{Path: filepath.Join(dir, "d"), Directory: true, Permissions: "0750"}); err != nil {
		t.Fatal(err)
	}
	checkFileIs(t, path, "one", 0o600)
	if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("parent: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(dir, "d")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}

	before := inode(t, path)
	if err := write(plan.File{Path: path, Content: b64("one"), Permissions: "0640"}); err != nil {
		t.Fatal(err)
	}
	checkFileIs(t, path, "one", 0o640)
	if inode(t, path) != before {
		t.Error("a file with the same content was written again")
	}

	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := write(plan.File{Path: link, Content: b64("two"), Permissions: "4755"}); err != nil {
		t.Fatal(err)
	}
	checkFileIs(t, path, "two", 0o755|os.ModeSetuid)
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("link was replaced: %v", err)
	}

	if err := write(
		plan.File{Path: filepath.Join(dir, "a"), Action: plan.FileActionDelete, Directory: true},
		plan.File{Path: filepath.Join(dir, "not-there"), Action: plan.FileActionDelete},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
}

func TestWriteFiles_ErrorsNameTheFileAndNotItsContent(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]plan.File{
		"content":                     {Path: filepath.Join(dir, "x"), Content: "hunter2!"},
		"permissions":                 {Path: filepath.Join(dir, "x"), Content: b64("hunter2"), Permissions: "rw"},
		"no path":                     {Content: b64("hunter2")},
		"not a directory":             {Path: filepath.Join(dir, "file", "x"), Content: b64("hunter2")},
		"directory that is not empty": {Path: dir, Action: plan.FileActionDelete},
	}
	for name, file := range tests {
		t.Run(name, func(t *testing.T) {
			err := writeFiles([]plan.File{{Path: filepath.Join(dir, "fine"), UID: -1, GID: -1}, file})
			if err == nil || !strings.HasPrefix(err.Error(), "files[1]") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func checkFileIs(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != content {
		t.Errorf("%s = %q, %v; want %q", path, data, err, content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("mode of %s is %v, %v; want %v", path, info.Mode(), err, mode)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestApply_UnwritableFileIsReported(t *testing.T) {
	a, _ := newTestApplier(t)
	r := mustApply(t, a, applyInput{apply: true, plan: plan.NodePlan{
		Files:        []plan.File{{Path: "/proc/no/such", Content: b64("x")}},
		Instructions: []plan.OneTimeInstruction{shell("x", "echo ran")},
	}})
	if r.succeeded || !strings.Contains(string(r.output[nodeplan.OutputAgentError]), "files[0] /proc/no/such") ||
		r.output["x"] != nil {
		t.Errorf("result = %+v", r)
	}
}

func TestApply_Periodic(t *testing.T) {
	a, _ := newTestApplier(t)
	periodic := func(name, script string) plan.PeriodicInstruction {
		return plan.PeriodicInstruction{CommonInstruction: plan.CommonInstruction{Name: name, Command: "sh",
			Args: []string{"-c", script}}, SaveStderrOutput: name == "both"}
	}
	p := plan.NodePlan{PeriodicInstructions: []plan.PeriodicInstruction{
		periodic("fails", "exit 4"), periodic("both", "echo out; echo err >&2"),
		periodic("out", "echo $CATTLE_AGENT_ATTEMPT_NUMBER; echo err >&2"), periodic("", "exit 1"),
	}}
	first := mustApply(t, a, applyInput{plan: p})
	if got := first.periodic["fails"]; got.ExitCode != 4 || got.Failures != 1 || got.LastFailedRunTime == "" ||
		got.LastSuccessfulRunTime != "" {
		t.Errorf("fails = %+v", got)
	}
	if got := first.periodic["both"]; string(got.Stdout) != "out\n" || string(got.Stderr) != "err\n" ||
		got.Name != "both" || got.LastSuccessfulRunTime == "" {
		t.Errorf("both = %+v", got)
	}
	if got := first.periodic["out"]; string(got.Stdout) != "1\n" || got.Stderr != nil {
		t.Errorf("out = %+v", got)
	}
	if len(first.periodic) != 3 || first.applied {
		t.Errorf("result = %+v", first)
	}
	second := mustApply(t, a, applyInput{plan: p, periodic: first.periodic})
	if diff := cmp.Diff(first.periodic, second.periodic); diff != "" {
		t.Errorf("ran again although not due (-first +second):\n%s", diff)
	}
	forced := mustApply(t, a, applyInput{plan: p, periodic: first.periodic, apply: true})
	if got := forced.periodic["fails"].Failures; got != 2 || !forced.succeeded {
		t.Errorf("failures = %d, succeeded %v: a periodic failure must not fail the plan", got, forced.succeeded)
	}
}

func TestApply_Probes(t *testing.T) {
	var up bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/redirect":
			http.Redirect(w, r, "/healthz", http.StatusFound)
		case r.URL.Path == "/away":
			http.Redirect(w, r, "https://example.invalid/", http.StatusFound)
		case r.URL.Path == "/hang":
			<-r.Context().Done()
		case !up:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	writeCert(t, ca, server)
	probe := func(path string) plan.Probe {
		return plan.Probe{HTTPGetAction: plan.HTTPGetAction{URL: server.URL + path, CACert: ca}}
	}
	untrusted, insecure := probe("/"), probe("/")
	untrusted.HTTPGetAction.CACert, insecure.HTTPGetAction.CACert = "", ""
	insecure.HTTPGetAction.Insecure = true
	p := plan.NodePlan{Probes: map[string]plan.Probe{
		"plain": probe("/"), "redirect": probe("/redirect"), "away": probe("/away"), "hang": probe("/hang"),
		"untrusted": untrusted, "insecure": insecure,
	}}
	a, _ := newTestApplier(t)
	down := mustApply(t, a, applyInput{plan: p, probes: map[string]plan.ProbeStatus{"former": {Healthy: true}}})
	for name, status := range down.probes {
		if status.Healthy || status.FailureCount != 1 {
			t.Errorf("%s while down = %+v", name, status)
		}
	}
	if _, stale := down.probes["former"]; stale || len(down.probes) != 6 {
		t.Errorf("probes = %v, want only those of the plan", down.probes)
	}
	up = true
	later := mustApply(t, a, applyInput{plan: p, probes: down.probes})
	got := map[string]bool{}
	for name, status := range later.probes {
		got[name] = status.Healthy
	}
	want := map[string]bool{"plain": true, "redirect": true, "insecure": true, "away": false, "hang": false,
		"untrusted": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("healthy (-want +got):\n%s", diff)
	}
}

// newImage returns an image with run.sh, a link to it, and entries that try to escape the directory.
func newImage(t *testing.T) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "run.sh", Typeflag: tar.TypeReg, Mode: 0o777},
		"#!/bin/sh\necho \"ran $1\"; helper; ls -l run.sh | cut -c1-10\n")
	add(tar.Header{Name: "bin/helper-real", Typeflag: tar.TypeReg, Mode: 0o755}, "#!/bin/sh\necho helped\n")
	add(tar.Header{Name: "helper", Typeflag: tar.TypeSymlink, Linkname: "bin/helper-real"}, "")
	add(tar.Header{Name: "../../escape", Typeflag: tar.TypeReg, Mode: 0o644}, "x")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestApply_ImageFromArchive(t *testing.T) {
	a, dir := newTestApplier(t)
	tag, err := name.NewTag("index.docker.io/rancher/installer:v1")
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(dir, "images", "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(sub, "installer.tar"), tag, newImage(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "images", "broken.tar.zst"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"rancher/installer:v1", "docker.io/rancher/installer:v1",
		"index.docker.io/rancher/installer:v1"} {
		r := mustApply(t, a, applyInput{apply: true, plan: plan.NodePlan{Instructions: []plan.OneTimeInstruction{
			{CommonInstruction: plan.CommonInstruction{Name: "install", Image: image, Args: []string{"arg"}},
				SaveOutput: true},
		}}})
		if got, want := string(r.output["install"]), "ran arg\nhelped\n-rwxr-xr-x\n"; got != want || !r.succeeded {
			t.Errorf("%s: output %q (%s), want %q", image, got, r.output[nodeplan.OutputAgentError], want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "escape")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the image wrote outside its directory")
	}
}

func TestApply_ImageFromMirror(t *testing.T) {
	a, dir := newTestApplier(t)
	var mu sync.Mutex
	var asked []string // guarded by mu: the client requests layers in parallel
	backend := registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		asked = append(asked, r.URL.Query().Get("ns"))
		mu.Unlock()
		backend.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	tag, err := name.NewTag(host+"/proxy/rancher/installer:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	config := registryConfig{Auth: &registryAuth{Username: "u", Password: "hunter2"}}
	if err := remote.Write(tag, newImage(t), config.keychain(tag)); err != nil {
		t.Fatal(err)
	}
	registries := `{"mirrors":{"docker.io":{"endpoint":["` + server.URL +
		`"],"rewrite":{"^rancher/(.*)":"proxy/rancher/$1"}}},` +
		`"configs":{"` + host + `":{"auth":{"username":"u","password":"hunter2"}}}}`
	if err := os.WriteFile(filepath.Join(dir, "registries.yaml"), []byte(registries), 0o600); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	asked = nil
	mu.Unlock()
	r := mustApply(t, a, applyInput{apply: true, plan: plan.NodePlan{Instructions: []plan.OneTimeInstruction{
		{CommonInstruction: plan.CommonInstruction{Name: "install", Image: "rancher/installer:v1"}, SaveOutput: true},
	}}})
	if !r.succeeded || !strings.HasPrefix(string(r.output["install"]), "ran") {
		t.Fatalf("output %q, %s", r.output["install"], r.output[nodeplan.OutputAgentError])
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) == 0 || asked[len(asked)-1] != "docker.io" {
		t.Errorf("the mirror got the original registry %q", asked)
	}
}

func TestEndpoints(t *testing.T) {
	tests := map[string]struct {
		registries registries
		image      string
		want       []string
	}{
		"no mirrors": {image: "rancher/x", want: []string{"https://index.docker.io rancher/x "}},
		"mirror of docker hub, then itself": {
			registries: registries{
				Mirrors: map[string]mirror{"docker.io": {Endpoints: []string{"https://m:5000", "other"},
					Rewrites: map[string]string{"^": "p/"}}}},
			image: "rancher/x", want: []string{"https://m:5000 p/rancher/x docker.io",
				"https://other p/rancher/x docker.io", "https://index.docker.io rancher/x "},
		},
		"star for other registries": {
			registries: registries{Mirrors: map[string]mirror{"*": {Endpoints: []string{"http://m"}}, "docker.io": {}}},
			image:      "quay.io/a/b", want: []string{"http://m a/b quay.io", "https://quay.io a/b "},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ref := mustRef(t, tc.image)
			places, err := tc.registries.endpoints(ref.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, place := range places {
				got = append(got, place.url.String()+" "+place.repository+" "+place.namespace)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func mustRef(t *testing.T, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestInterlock(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, restartPendingMark)
	l := interlock{dir: dir, now: func() time.Time { return noon }}
	if l.restartPending() {
		t.Error("no interlock")
	}
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"a fresh interlock": {text: "", want: true},
		"recent":            {text: unixDate(noon.Add(-time.Minute)), want: true},
		"stale":             {text: unixDate(noon.Add(-6 * time.Minute)), want: false},
	} {
		if err := os.WriteFile(mark, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := l.restartPending(); got != tc.want {
			t.Errorf("%s: pending %v, want %v", name, got, tc.want)
		}
		if _, err := os.Stat(mark); (err == nil) != tc.want {
			t.Errorf("%s: interlock exists: %v", name, err)
		}
	}
	clock := noon
	later := interlock{dir: dir, now: func() time.Time { return clock }}
	if err := os.WriteFile(mark, []byte(unixDate(noon.Add(24*time.Hour))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if got := later.restartPending(); got != want {
			t.Errorf("interlock of tomorrow, after %s: pending %v, want %v", clock.Sub(noon), got, want)
		}
		clock = noon.Add(restartPendingAge)
	}
	a, agentDir := newTestApplier(t)
	if err := os.WriteFile(filepath.Join(agentDir, "interlock", restartPendingMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.apply(t.Context(), applyInput{apply: true}); !errors.Is(err, errRestartPending) {
		t.Errorf("err = %v", err)
	}
}

func TestHistory_KeepsTheLast(t *testing.T) {
	h := history{dir: filepath.Join(t.TempDir(), "applied")}
	if h.newest() != "" {
		t.Error("no record exists yet")
	}
	for i := range 70 {
		// The clock stops, then goes back. The last written record must still be the newest.
		if err := h.add(plan.NodePlan{}, string(rune('A'+i)), source{},
			noon.Add(-time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		if h.newest() != string(rune('A'+i)) {
			t.Fatalf("after %d records the newest is %q", i+1, h.newest())
		}
	}
	names := h.names()
	if len(names) != historyKept {
		t.Errorf("%d records remain", len(names))
	}
	if info, err := os.Stat(filepath.Join(h.dir, names[0])); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
