package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// UI serves the web UI on this host until stop is called. The URL contains a token.
func (f *Forwarded) UI(ctx context.Context) (url string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, filepath.Join(f.rig.Bin, "drover"), "ui", "--no-browser", "--kubeconfig",
		f.ManagementKubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("serve the web UI: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	stop = func() {
		cancel()
		_ = cmd.Wait() // the signal ends it
	}
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("serve the web UI: it printed no URL: %w", errors.Join(err, cmd.Wait()))
	}
	return strings.TrimSpace(line), stop, nil
}
