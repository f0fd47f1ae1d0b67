package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// podGrace is how long the processes around a pod may take to end it.
const podGrace = 10 * time.Second

// ErrStop means that something that was started may still run.
var ErrStop = errors.New("not everything could be stopped")

// Stop ends everything and keeps the data: first drover server with the management plane, so that nobody starts anything anew, then what
// runs in pods, then the cloud and its machines. It may be called on a rig of which only a part was started, and more than once.
func (r *Rig) Stop(ctx context.Context) error {
	if r.supervisor != nil {
		r.supervisor.Close()
		r.supervisor = nil
	}
	errs := []error{endPods(ctx, r.DataDir(), podGrace)}
	if r.api != nil {
		r.api.close()
		r.api = nil
	}
	if r.Lab != nil {
		errs = append(errs, r.Lab.Stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrStop, err)
	}
	return nil
}

// endPods ends what runs in pods: like containers, they outlive the kubelet. Each has a shim, which is found by the pod's folder in its
// command line, and which ends the container with everything that the container started, and keeps how it ended for the next kubelet.
// What a shim does not manage in time is ended from here.
func endPods(ctx context.Context, dataDir string, grace time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	end := func(one procid.ID) error { return one.Signal(syscall.SIGUSR1) }
	err := eachPod(bounded, dataDir, end)
	if err == nil || bounded.Err() == nil {
		return err
	}
	return eachPod(ctx, dataDir, killTree)
}

// eachPod acts on the processes of pods until there are none.
func eachPod(ctx context.Context, dataDir string, act func(procid.ID) error) error {
	return poll(ctx, func() (bool, error) {
		pods, err := podProcesses(dataDir)
		for _, one := range pods {
			err = errors.Join(err, act(one))
		}
		return len(pods) == 0, err
	})
}

// podProcesses are the shims of pods, and containers that have not become their program yet.
func podProcesses(dataDir string) ([]procid.ID, error) {
	return procid.Find("cmdline", func(line []byte) bool { return inPodFolder(line, dataDir) })
}

// inPodFolder says whether a command line is that of a process around a pod of this data directory.
func inPodFolder(line []byte, dataDir string) bool {
	arguments := bytes.Split(line, []byte{0})
	if len(arguments) < 3 || !bytes.HasPrefix(arguments[1], []byte("process-")) {
		return false
	}
	return strings.HasPrefix(string(arguments[2]), filepath.Join(dataDir, "kubelet")+"/")
}

// killTree ends a process and, before it, all that it started: once it has ended, its children are nobody's.
func killTree(root procid.ID) error {
	var errs []error
	for _, child := range root.Children() {
		errs = append(errs, killTree(child))
	}
	return errors.Join(append(errs, root.Signal(syscall.SIGKILL))...)
}
