package agent

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func TestProbes_FollowTheService(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	var up atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer service.Close()
	p := plan.NodePlan{Probes: map[string]plan.Probe{"web": {
		InitialDelaySeconds: 1, TimeoutSeconds: 2, FailureThreshold: 2,
		HTTPGetAction: plan.HTTPGetAction{URL: service.URL},
	}}}
	m.deliver(p)
	m.start()
	s := m.awaitApplied()
	if s.Healthy {
		t.Error("a plan is reported as applied before its first probe")
	}
	up.Store(true)
	m.await("the probe is healthy", soon, func(s nodeplan.State) bool { return s.ProbeStatuses["web"].Healthy })
	up.Store(false)
	m.await("the probe is unhealthy", soon, func(s nodeplan.State) bool { return !s.ProbeStatuses["web"].Healthy })
}

func TestPeriodic_RunsAndReports(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	periodic := func(name, script string) plan.PeriodicInstruction {
		return plan.PeriodicInstruction{PeriodSeconds: 1, SaveStderrOutput: name == "both",
			CommonInstruction: plan.CommonInstruction{
				Name: name, Command: "sh", Args: []string{"-c", script}, Env: []string{"M=" + m.dir},
			}}
	}
	m.deliver(plan.NodePlan{PeriodicInstructions: []plan.PeriodicInstruction{
		periodic("both", "echo out; echo err >&2; echo x >> $M/ticks"), periodic("plain", "echo out; echo err >&2"),
		periodic("fails", "echo no; exit 3"),
	}})
	m.start()
	s := m.await("all instructions have run", soon, func(s nodeplan.State) bool {
		return len(s.PeriodicOutput) == 3 && s.InSync
	})
	both, plain, fails := s.PeriodicOutput["both"], s.PeriodicOutput["plain"], s.PeriodicOutput["fails"]
	if string(both.Stdout) != "out\n" || string(both.Stderr) != "err\n" || both.Name != "both" || both.ExitCode != 0 {
		t.Errorf("both = %+v", both)
	}
	if _, err := time.Parse(time.UnixDate, both.LastSuccessfulRunTime); err != nil || both.LastFailedRunTime != "" {
		t.Errorf("times of both = %+v", both)
	}
	if string(plain.Stdout) != "out\n" || len(plain.Stderr) != 0 {
		t.Errorf("plain = %+v", plain)
	}
	if fails.ExitCode != 3 || fails.Failures < 1 || fails.LastFailedRunTime == "" || fails.LastSuccessfulRunTime != "" {
		t.Errorf("fails = %+v", fails)
	}
	if s.Failed || s.FailureCount != 0 {
		t.Error("a periodic failure made the plan fail")
	}
	before := m.lines("ticks")
	m.await("it runs again", soon, func(nodeplan.State) bool { return m.lines("ticks") > before })
}

func installerImage(t *testing.T) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, content := range map[string]string{"run.sh": "#!/bin/sh\necho \"default $1\"; installer.sh\n",
		"installer.sh": "#!/bin/sh\necho installed\n"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755,
			Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestImage_FromArchive(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tag, err := name.NewTag("docker.io/rancher/system-agent-installer-k3s:v1.36.2-k3s1")
	m.must(err)
	m.must(tarball.WriteToFile(m.path("images/installer.tar"), tag, installerImage(t)))
	const image = "rancher/system-agent-installer-k3s:v1.36.2-k3s1"
	m.deliver(plan.NodePlan{Instructions: []plan.OneTimeInstruction{
		{SaveOutput: true, CommonInstruction: plan.CommonInstruction{Name: "default", Image: image,
			Args: []string{"arg"}}},
		{SaveOutput: true, CommonInstruction: plan.CommonInstruction{Name: "install", Image: image, Command: "sh",
			Args: []string{"-c", "run.sh"}}},
	}})
	m.start()
	s := m.awaitApplied()
	if got := string(s.Output["default"]); got != "default arg\ninstalled\n" {
		t.Errorf("run.sh of the image printed %q", got)
	}
	if got := string(s.Output["install"]); got != "default \ninstalled\n" {
		t.Errorf("the install instruction printed %q", got)
	}
}

func TestImage_Missing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(plan.NodePlan{Instructions: []plan.OneTimeInstruction{
		{SaveOutput: true, CommonInstruction: plan.CommonInstruction{Name: "install", Image: "127.0.0.1:1/none:v1",
			Command: "true"}},
	}}, nodeplan.KeyMaxFailures, "1")
	m.start()
	s := m.await("the failure is reported", 60*time.Second, func(s nodeplan.State) bool { return s.Failed })
	if ours() && !strings.Contains(string(s.FailedOutput[nodeplan.OutputAgentError]), "127.0.0.1:1/none:v1") {
		t.Errorf("report = %q", s.FailedOutput)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	run := func(args ...string) error {
		return exec.CommandContext(t.Context(), m.program, args...).Run()
	}
	m.must(run("--version"))
	m.must(run("validate-config", m.path("config.yaml")))
	m.must(run("validate-connection", m.path("connection.json")))
	broken := m.path("broken.json")
	m.must(os.WriteFile(broken, []byte(`{"kubeConfig":"","namespace":"a","secretName":"b"}`), 0o600))
	if run("validate-connection", broken) == nil {
		t.Error("a connection without kubeconfig is accepted")
	}
	m.must(os.Chmod(m.path("connection.json"), 0o644))
	if run("validate-connection", m.path("connection.json")) == nil {
		t.Error("a connection that others can read is accepted")
	}
}

func TestTLS_AnotherAuthorityEndsTheAgent(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	m.writeConnection(other.URL, unrelatedAuthority(t), "token")
	m.deliver(m.run("a", "touch $M/ran"))
	cmd := exec.CommandContext(t.Context(), m.program, "sentinel")
	cmd.Env = append(os.Environ(), "CATTLE_AGENT_CONFIG="+m.path("config.yaml"), "CATTLE_AGENT_STRICT_VERIFY=true")
	output, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "certificate") {
		t.Errorf("err %v, output:\n%s", err, output)
	}
	if strings.Contains(string(output), "Bearer") {
		t.Error("the token was sent or printed")
	}
}

// unrelatedAuthority returns a certificate authority that has signed nothing.
func unrelatedAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "unrelated"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
