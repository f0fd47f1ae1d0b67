package managementplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/supervise"
)

// startAttempts is the number of port choices that Start tries. Another process may take a port after it was chosen.
const startAttempts = 3

// startDeadline limits Start if its context has no deadline.
const startDeadline = 3 * time.Minute

// Plane is a management plane on this machine. Its methods are safe for concurrent use.
type Plane struct {
	config Config

	mu         sync.Mutex
	supervisor *supervise.Supervisor
	restConfig *rest.Config
}

// New checks the configuration. It starts no process and touches no file.
func New(config Config) (*Plane, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Plane{config: config}, nil
}

// Start creates missing files, ends processes of a killed run, starts the components in order and returns when the last
// one is ready. On error it stops everything. The error names the component and quotes the end of its log. If ctx has
// no deadline, Start gives up after three minutes.
func (p *Plane) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.supervisor != nil {
		return errors.New("start management plane: it is running already")
	}
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startDeadline)
		defer cancel()
	}
	if err := os.MkdirAll(p.config.Dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	supervisor, err := supervise.Open(ctx, supervise.Options{
		RunDir: filepath.Join(p.config.Dir, "run"), LogDir: filepath.Join(p.config.Dir, "logs"), Log: p.config.Log,
	})
	if err != nil {
		return fmt.Errorf("start management plane: %w", err)
	}
	if err := p.startAll(ctx, supervisor); err != nil {
		supervisor.Close()
		return fmt.Errorf("start management plane: %w", err)
	}
	p.supervisor = supervisor
	return nil
}

// startAll starts the components. If another process took a free port, it tries other ports.
func (p *Plane) startAll(ctx context.Context, supervisor *supervise.Supervisor) error {
	for attempt := 1; ; attempt++ {
		s, err := p.prepare()
		if err != nil {
			return err
		}
		err = p.startComponents(ctx, supervisor, s)
		if err == nil {
			return nil
		}
		if attempt == startAttempts || !freePortTaken(err, s.Ports) {
			return err
		}
		p.config.Log.Info("Another process took a port that was free; choosing other ports")
		supervisor.StopAll()
	}
}

// prepare chooses ports and makes certificates and the kubeconfig.
func (p *Plane) prepare() (settings, error) {
	s := settings{Config: p.config}
	var err error
	if s.ports, err = choosePorts(s.Ports, s.BindAddress, s.runFile("ports")); err != nil {
		return s, err
	}
	if s.certs, err = makeCertificates(s.Config); err != nil {
		return s, err
	}
	content, err := adminKubeconfig(s)
	if err != nil {
		return s, err
	}
	if err := localfile.Write(p.Kubeconfig(), content); err != nil {
		return s, err
	}
	p.restConfig, err = clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return s, fmt.Errorf("read kubeconfig: %w", err)
	}
	return s, nil
}

func (p *Plane) startComponents(ctx context.Context, supervisor *supervise.Supervisor, s settings) error {
	for _, component := range components(s) {
		for _, file := range component.Files {
			if err := localfile.Write(file.Path, file.Content); err != nil {
				return err
			}
		}
		ready, err := component.Ready.check()
		if err != nil {
			return fmt.Errorf("start %s: %w", component.Name, err)
		}
		child := supervise.Child{
			Name:  component.Name,
			Path:  s.KubeBinary,
			Args:  append([]string{component.Name}, component.Args...),
			Env:   childEnvironment(),
			Dir:   s.Dir,
			Ready: ready,
			Grace: component.Grace,
		}
		if err := supervisor.Start(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops the components in reverse order and returns when all have ended. It does nothing if the plane does not
// run. Start works again afterwards.
func (p *Plane) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.supervisor == nil {
		return
	}
	p.supervisor.Close()
	p.supervisor = nil
}

// RESTConfig returns a copy of the client configuration of a cluster administrator. It returns nil before Start.
func (p *Plane) RESTConfig() *rest.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.restConfig == nil {
		return nil
	}
	return rest.CopyConfig(p.restConfig)
}

// Kubeconfig returns the path of the administrator's kubeconfig. Start writes it with mode 0600.
func (p *Plane) Kubeconfig() string { return filepath.Join(p.config.Dir, "kubeconfig") }

// AuditLog returns the path of the audit log.
func (p *Plane) AuditLog() string { return filepath.Join(p.config.Dir, "logs", auditFile) }

// PID returns the process ID of a component, or 0 if it does not run.
func (p *Plane) PID(component string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.supervisor == nil {
		return 0
	}
	return p.supervisor.PID(component)
}

// childEnvironment is the environment of the components. They inherit nothing from this process.
func childEnvironment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
}

// check returns a function that makes one ready check.
func (r ReadyCheck) check() (func(context.Context) error, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	if r.CAFile != "" {
		authority, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read authority: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(authority)
	}
	if r.Client.CertFile != "" {
		client, err := tls.LoadX509KeyPair(r.Client.CertFile, r.Client.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{client}
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return func(ctx context.Context) error { return ask(ctx, client, r.URL) }, nil
}

func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("request %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 2048))
		return fmt.Errorf("%s answered %s: %s", url, response.Status, body)
	}
	return nil
}
