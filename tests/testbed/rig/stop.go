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

// podGrace is the time that the processes around a pod have to end it.
const podGrace = 10 * time.Second

// ErrStop means that a process that was started may still run.
var ErrStop = errors.New("not everything could be stopped")

// Stop stops everything and keeps the data. It stops drover server and the management plane first, so that they cannot
// start new processes, then the pods, then the cloud and its machines. It also works on a partly started rig, and may
// be called more than once.
func (r *Rig) Stop(ctx context.Context) error {
	if r.s3 != nil {
		r.s3.close()
		r.s3 = nil
	}
	if r.supervisor != nil {
		r.supervisor.Close()
		r.supervisor = nil
	}
	errs := []error{endPods(ctx, r.DataDir(), podGrace)}
	if r.api != nil {
		r.api.close()
		r.api = nil
	}
	if r.ec2 != nil {
		r.ec2.close()
		r.ec2 = nil
	}
	if r.Lab != nil {
		errs = append(errs, r.Lab.Stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrStop, err)
	}
	return nil
}

// endPods ends the processes in pods, which outlive the kubelet as containers do. Each has a shim, which endPods finds
// by the pod's folder in its command line. The shim ends the container with all its processes and records how it ended
// for the next kubelet. After the grace period, endPods kills what is left.
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

// eachPod calls act for the processes of pods until there are none.
func eachPod(ctx context.Context, dataDir string, act func(procid.ID) error) error {
	return poll(ctx, func() (bool, error) {
		pods, err := podProcesses(dataDir)
		for _, one := range pods {
			err = errors.Join(err, act(one))
		}
		return len(pods) == 0, err
	})
}

// podProcesses returns the shims of pods, and containers that have not become their program yet.
func podProcesses(dataDir string) ([]procid.ID, error) {
	return procid.Find("cmdline", func(line []byte) bool { return inPodFolder(line, dataDir) })
}

// inPodFolder reports whether a command line belongs to a process around a pod of this data directory.
func inPodFolder(line []byte, dataDir string) bool {
	arguments := bytes.Split(line, []byte{0})
	if len(arguments) < 3 || !bytes.HasPrefix(arguments[1], []byte("process-")) {
		return false
	}
	return strings.HasPrefix(string(arguments[2]), filepath.Join(dataDir, "kubelet")+"/")
}

// killTree kills the descendants of a process and then the process. Once the process has ended, its children can no
// longer be found.
func killTree(root procid.ID) error {
	var errs []error
	for _, child := range root.Children() {
		errs = append(errs, killTree(child))
	}
	return errors.Join(append(errs, root.Signal(syscall.SIGKILL))...)
}
