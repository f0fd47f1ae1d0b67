// Package replica runs `drover server` as a separate process that tests can stop, kill and restart.
package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// ServerName is the host in the server's address for machines. The certificate of every replica is for it.
const ServerName = "drover.test"

// Replica is one process and its successors with the same name and ports.
type Replica struct {
	// Name distinguishes replicas.
	Name string
	// Program is the file to run. It may change between two processes.
	Program string
	// ServerURL is the address for machines, https://ServerName unless it is changed before Start.
	ServerURL string
	// More are additional arguments. They may change between two processes.
	More []string
	// Address serves machines. Health serves health checks and metrics. Both are HOST:PORT.
	Address, Health string

	t          *testing.T
	kubeconfig string
	data       string
	process    *exec.Cmd
	ended      chan error
	log        string
}

// New returns a replica that reaches the API server with a kubeconfig. It starts no process. More are additional
// arguments.
func New(t *testing.T, name, kubeconfig string, more ...string) *Replica {
	t.Helper()
	program, err := plane.Binary("drover")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &Replica{
		Name: name, Program: program, ServerURL: "https://" + ServerName, Address: "127.0.0.1:" + stage.FreePort(t),
		Health: "127.0.0.1:" + stage.FreePort(t),
		t:      t, kubeconfig: kubeconfig, data: filepath.Join(dir, "data"), More: more,
		log: filepath.Join(dir, name+".log"),
	}
}

// Start starts a process. AwaitReady waits until it serves.
func (r *Replica) Start() {
	r.t.Helper()
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	_, port, err := net.SplitHostPort(r.Address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.process = exec.CommandContext(context.WithoutCancel(r.t.Context()), r.Program, append([]string{
		"server", "--kubeconfig=" + r.kubeconfig, "--instance-id=contract", "--server-url=" + r.ServerURL,
		"--data-dir=" + r.data,
		"--bind-address=127.0.0.1", "--port=" + port, "--health-address=" + r.Health,
		"--machine-provision-image=rancher/machine:test", "--machine-provision-image-pull-policy=IfNotPresent",
	}, r.More...)...)
	r.process.Stdout, r.process.Stderr = log, log
	r.process.Env = append(os.Environ(), "HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=",
		// Simulated machines have loopback addresses. Older programs lack the flag, and ignore a variable.
		"DROVER_ALLOW_LOOPBACK_CLUSTERS=true")
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func(process *exec.Cmd) { ended <- process.Wait() }(r.process)
	r.ended = ended
	r.t.Cleanup(func() {
		if r.process != nil {
			r.Kill()
		}
		r.tell()
	})
}

// tell copies the log to that of a failed test, once.
func (r *Replica) tell() {
	if text, err := os.ReadFile(r.log); err == nil && r.t.Failed() {
		r.t.Logf("log of %s:\n%s", r.Name, text)
		_ = os.Remove(r.log)
	}
}

// Log returns what the process and its predecessors have logged.
func (r *Replica) Log() string {
	r.t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// AwaitReady waits until the replica serves machines.
func (r *Replica) AwaitReady() {
	r.t.Helper()
	plane.Until(r.t, 2*time.Minute, func() string {
		if !r.Runs() {
			return r.Name + " has ended"
		}
		return r.Unready()
	})
}

// Unready returns why the replica does not serve machines, or "".
func (r *Replica) Unready() string {
	response, err := http.Get("http://" + r.Health + "/readyz") //nolint:noctx // answered at once
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return r.Name + " answers " + response.Status
	}
	return ""
}

// Dial connects to the next of the replicas, like a connection balancer. It skips replicas that do not listen. It is
// for fakeagent.Options.Dial, because the name in ServerURL does not resolve here.
func Dial(all ...*Replica) func(ctx context.Context, address string) (net.Conn, error) {
	var turn atomic.Uint64
	return func(ctx context.Context, _ string) (conn net.Conn, err error) {
		first := turn.Add(1)
		for i := range uint64(len(all)) {
			if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp",
				all[(first+i)%uint64(len(all))].Address); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
}

// PID returns the process ID.
func (r *Replica) PID() int { return r.process.Process.Pid }

// Runs reports whether the process runs.
func (r *Replica) Runs() bool {
	return r.process != nil && r.process.Process.Signal(syscall.Signal(0)) == nil && len(r.ended) == 0
}

// Kill kills the process, like a power failure.
func (r *Replica) Kill() {
	_ = r.process.Process.Kill()
	if err := <-r.ended; err == nil {
		r.t.Logf("%s has ended by itself", r.Name)
	}
	r.process = nil
}

// Terminate sends SIGTERM to the process, as Kubernetes does. The returned function waits for its end and returns its
// error.
func (r *Replica) Terminate() (wait func() error) {
	r.t.Helper()
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	return func() error {
		select {
		case err := <-r.ended:
			r.process = nil
			return err
		case <-time.After(time.Minute):
			return errors.New("it did not end within a minute")
		}
	}
}

// Stop terminates the process and fails the test if it ends with an error.
func (r *Replica) Stop() {
	r.t.Helper()
	if err := r.Terminate()(); err != nil {
		r.t.Errorf("%s has ended: %v", r.Name, err)
	}
}

// Metrics returns the values of all metrics without labels.
func (r *Replica) Metrics() (map[string]float64, error) {
	response, err := http.Get("http://" + r.Health + "/metrics") //nolint:noctx // answered at once
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	values := map[string]float64{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) == 0 {
				values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() +
					metric.GetUntyped().GetValue()
			}
		}
	}
	return values, nil
}

// Disruptions returns the restarts, drains and replacements of machines that the process has counted, by cause.
func (r *Replica) Disruptions() (disruptions.Counts, error) {
	response, err := http.Get("http://" + r.Health + "/metrics") //nolint:noctx // answered at once
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return disruptions.Scraped(response.Body)
}

// Leads reports whether the controllers run in this replica.
func (r *Replica) Leads() bool {
	values, err := r.Metrics()
	return err == nil && values["drover_leader"] == 1
}

// Leader waits until one of the replicas leads, and returns it.
func Leader(t *testing.T, timeout time.Duration, all ...*Replica) *Replica {
	t.Helper()
	var leader *Replica
	plane.Until(t, timeout, func() string {
		for _, r := range all {
			if r.Runs() && r.Leads() {
				leader = r
				return ""
			}
		}
		return "no replica leads"
	})
	return leader
}
