package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"k8s.io/client-go/kubernetes"
)

// Options are what the agent needs in addition to its configuration file.
type Options struct {
	Config Config
	// RequireCA refuses a kubeconfig that contains no certificate authority.
	RequireCA bool
	// Version is reported to the server, empty for none.
	Version string
	// Environ is the environment of instructions, as K=V.
	Environ []string
	// Log receives messages, and the output of one-time instructions line by line.
	Log logrus.FieldLogger
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Run applies plans until the context ends. It returns an error only when it cannot start: the connection file is
// invalid, or the server cannot be reached or trusted.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := newApplier(o)
	if endOrphan(ctx, a.runner.runningFile) {
		o.Log.Warn("Stopped an instruction that a killed agent left running")
	}
	var client kubernetes.Interface
	var info ConnectionInfo
	if o.Config.RemoteEnabled {
		var err error
		if info, err = LoadConnection(o.Config.ConnectionInfoFile); err != nil {
			return err
		}
		if client, err = connect(ctx, info, o.RequireCA); err != nil {
			return err
		}
	}
	var sources sync.WaitGroup
	if o.Config.LocalEnabled {
		local := &localSource{dir: o.Config.LocalPlanDirectory, applier: a, log: o.Log}
		sources.Go(func() { local.run(ctx) })
	}
	if client != nil {
		o.Log.WithField("secret", info.Namespace+"/"+info.SecretName).Info("Watching plan secret")
		remote := &remoteSource{
			client: client, namespace: info.Namespace, name: info.SecretName, applier: a, log: o.Log, now: o.Now,
			patience: replacedPatience, extras: extras{hostKeys: hostKeys{dir: sshDir},
				upgrades: upgrades{dir: upgradeDir(o.Config), version: o.Version}},
		}
		sources.Go(func() { remote.run(ctx) })
	}
	sources.Wait()
	return nil
}

func newApplier(o Options) *applier {
	running := ""
	if err := os.MkdirAll(filepath.Dir(o.Config.WorkDirectory), 0o700); err == nil {
		running = filepath.Join(filepath.Dir(o.Config.WorkDirectory), "running-instruction")
	}
	return &applier{
		workDir:   o.Config.WorkDirectory,
		preserve:  o.Config.PreserveWorkDirectory,
		interlock: interlock{dir: o.Config.InterlockDirectory, now: o.Now},
		history:   history{dir: o.Config.AppliedPlanDirectory},
		log:       o.Log,
		now:       o.Now,
		runner: runner{
			environ:     o.Environ,
			runningFile: running,
			log:         o.Log,
			images: &images{
				dir: o.Config.ImagesDirectory,
				log: o.Log,
				registriesFile: []string{
					o.Config.AgentRegistriesFile, "/etc/rancher/rke2/registries.yaml",
					"/etc/rancher/k3s/registries.yaml",
				},
			},
		},
	}
}

// ValidateConnection checks a connection file. Install scripts call it before they install the file.
func ValidateConnection(path string) error {
	info, err := LoadConnection(path)
	if err != nil {
		return err
	}
	if _, err := restConfig(info, false); err != nil {
		return fmt.Errorf("connection file %s: %w", path, err)
	}
	return nil
}
