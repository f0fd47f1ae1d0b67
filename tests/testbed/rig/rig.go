package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/pkg/local/managementplane/supervise"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// Time limits for starting and stopping.
const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 60 * time.Second
	// explainTimeout limits the requests after a failure, because the user has waited long enough.
	explainTimeout = 15 * time.Second
)

// Options configure a rig.
type Options struct {
	// Name distinguishes rigs on one host. It is also the lab's name.
	Name string
	// Dir contains everything that the rig creates outside network namespaces and control groups.
	Dir string
	// Bin is the folder with the programs.
	Bin string
	// Cache is the folder for machine images, which rigs share.
	Cache string
	// Versions of Kubernetes for which installer images are needed, as v1.36.3+k3s1.
	Versions []string
	// Installers are paths of real distributions (installer.Open), which replace the stand-in of the same name. A rig
	// keeps a copy and uses it in later runs.
	Installers []string
	// CloudInit selects machines that Debian's cloud-init sets up, as ServeEC2 needs.
	CloudInit bool
	// Log receives progress messages.
	Log io.Writer
	// Owner, if set, is the owner of files that a user of the rig reads or removes. The default is root.
	Owner *Owner
	// ServerArgs are added to the command line of drover server.
	ServerArgs []string
}

// Owner is a user ID and a group ID.
type Owner struct{ UID, GID int }

// Rig is a running rig.
type Rig struct {
	Options
	// Lab is the cloud.
	Lab *lab.Lab
	// Config is the client configuration for the management plane, for this process outside the lab's network.
	Config *rest.Config

	releases   []keptRelease
	api        *labAPI
	s3         *S3
	ec2        *EC2
	supervisor *supervise.Supervisor
	// disruptions are the counts of servers that KillPlane ended.
	disruptions disruptions.Counts
}

func (o Options) labConfig(image string, releases []keptRelease) lab.Config {
	return lab.Config{
		Name: o.Name, Dir: filepath.Join(o.Dir, "lab"), Image: image, Images: o.installers(releases),
		Kubelets: o.kubelets(releases),
	}
}

// DataDir is the data directory of drover server.
func (o Options) DataDir() string { return filepath.Join(o.Dir, "drover") }

// Start starts everything and adopts what an earlier run left. If it fails or ctx ends first, it stops what it has
// started.
func Start(ctx context.Context, options Options) (*Rig, error) {
	r := &Rig{Options: options}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func (r *Rig) start(ctx context.Context) error {
	ensureImage := lab.EnsureImage
	if r.CloudInit {
		ensureImage = lab.EnsureCloudInitImage
	}
	image, err := ensureImage(ctx, r.Cache, r.buildLog("image"))
	if err != nil {
		return err
	}
	if r.releases, err = r.keepReleases(ctx); err != nil {
		return err
	}
	if err := r.ensureImages(r.releases); err != nil {
		return err
	}
	if r.Lab, err = lab.Open(ctx, r.labConfig(image, r.releases)); err != nil {
		return err
	}
	if r.api, err = serveLab(r.Lab, filepath.Join(r.Dir, "lab-api"), r.Bin); err != nil {
		return err
	}
	if err := r.startServer(ctx); err != nil {
		return err
	}
	return r.prepareCloud(ctx)
}

// buildLog returns the log file for the output of a build.
func (o Options) buildLog(name string) io.Writer {
	path := filepath.Join(o.Dir, "logs", name+".log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return o.Log
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return o.Log
	}
	return file
}

// serverName is the name of drover server as the rig's child process.
const serverName = "drover-server"

// supervision configures the supervisor of the rig's child processes.
func (o Options) supervision() supervise.Options {
	log := logrus.New()
	log.SetOutput(o.Log)
	log.SetLevel(logrus.WarnLevel)
	return supervise.Options{RunDir: filepath.Join(o.Dir, "run"), LogDir: filepath.Join(o.Dir, "logs"), Log: log}
}

// startServer starts drover server with its embedded management plane inside the lab's network. It returns when the
// Kubernetes API and Drover answer. A server that ends is restarted, as systemd would do.
func (r *Rig) startServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	if r.supervisor, err = supervise.Open(ctx, r.supervision()); err != nil {
		return err
	}
	args := append([]string{
		"netns", "exec", r.Lab.Namespace(), filepath.Join(r.Bin, "drover"), "server", "--embedded",
		"--data-dir=" + r.DataDir(),
		"--bind-address=" + lab.Gateway.String(),
		"--insecure-node-drivers", // the lab serves its driver without TLS
		"--server-url=https://" + net.JoinHostPort(lab.Gateway.String(), "8443"),
	}, r.ServerArgs...)
	path, err := exec.LookPath("ip")
	if err != nil {
		return fmt.Errorf("find iproute2: %w", err)
	}
	return r.supervisor.Start(ctx, supervise.Child{
		Name: serverName, Path: path, Args: args,
		Env:   []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")},
		Ready: r.serverReady, Grace: stopTimeout,
	})
}

// serverReady returns nil when the management plane has a kubeconfig and Drover answers.
func (r *Rig) serverReady(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(r.DataDir(), "kubeconfig"))
	if err != nil {
		return fmt.Errorf("no management plane yet: %w", err)
	}
	config.Dial, config.QPS, config.Burst = r.Dial, 50, 100
	r.Config = config
	return r.droverReady(ctx)
}

// Answers returns nil when the Kubernetes API and Drover answer.
func (r *Rig) Answers(ctx context.Context) error { return r.serverReady(ctx) }

// droverReady calls Drover's readiness endpoint, which listens on the loopback of the lab's namespace.
func (r *Rig) droverReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	resp, err := r.ask(ctx, "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("drover is not ready: %s", resp.Status)
	}
	return nil
}

// Dial connects to an address inside the lab's network.
func (r *Rig) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	return lab.DialIn(ctx, r.Lab.Namespace(), address)
}

// ServerPID returns the process ID of drover server, or 0 if it does not run.
func (r *Rig) ServerPID() int { return r.supervisor.PID(serverName) }

// KillPlane kills drover server and the processes of the management plane at once, like a crash of their host. Each of
// them leads its own process group. These groups together are the plane, and all get SIGKILL. Pods are in other groups
// and continue. drover server is then restarted.
func (r *Rig) KillPlane() error {
	if counts, err := r.Disruptions(context.Background()); err == nil { // a server that does not answer has no counts
		r.disruptions = counts
	}
	files, err := filepath.Glob(filepath.Join(r.DataDir(), "run", "*.json"))
	if err != nil {
		return fmt.Errorf("find processes: %w", err)
	}
	var pids []int
	if pid := r.ServerPID(); pid > 1 {
		pids = append(pids, pid)
	}
	for _, file := range files {
		var record struct {
			PID int `json:"pid"`
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("find processes: %w", err)
		}
		if json.Unmarshal(data, &record) == nil && record.PID > 1 {
			pids = append(pids, record.PID)
		}
	}
	if len(pids) < 5 {
		return fmt.Errorf("found only %d processes of the management plane", len(pids))
	}
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("end process group %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// Destroy removes everything that a rig with these options ever created. It fails if the rig still runs in another
// process.
func Destroy(ctx context.Context, options Options) error {
	if _, err := os.Stat(options.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Open ends what a killed run left: first drover server, then its management plane.
	for _, dir := range []string{options.Dir, options.DataDir()} {
		supervision := options.supervision()
		supervision.RunDir = filepath.Join(dir, "run")
		supervisor, err := supervise.Open(ctx, supervision)
		if err != nil {
			return err
		}
		supervisor.Close()
	}
	if err := endPods(ctx, options.DataDir(), podGrace); err != nil {
		return err
	}
	if err := lab.Destroy(ctx, options.labConfig("", nil)); err != nil {
		return err
	}
	return os.RemoveAll(options.Dir)
}
