package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/tests/testbed/rig"
)

// runUp runs the quickstart until ctx ends, which is always an orderly end. Before it returns, it stops everything that
// it started.
func runUp(ctx context.Context, options rig.Options, manifest string, shown *steps) (err error) {
	release, err := options.Claim()
	if err != nil {
		return err
	}
	defer release()
	var r *rig.Rig
	if err := shown.run("Management plane, Drover and the lab", func() error {
		r, err = rig.Start(ctx, options)
		return err
	}); err != nil {
		return ignoreInterrupt(ctx, err)
	}
	defer func() {
		fmt.Fprintln(shown.out, "\nStopping. The data stays, and the next run continues with it.")
		err = errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}()
	if manifest, err = manifestOf(r, manifest); err != nil {
		return err
	}
	return ignoreInterrupt(ctx, present(ctx, r, manifest, shown))
}

var kubernetesVersion = regexp.MustCompile(`(?m)^( *kubernetesVersion: ).*$`)

// manifestOf returns the manifest to apply. For a real distribution, it is a copy with that version, which the user may
// edit.
func manifestOf(r *rig.Rig, manifest string) (string, error) {
	version := r.Release("")
	if version == "" {
		return manifest, nil
	}
	own := filepath.Join(r.Dir, "cluster.yaml")
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return "", fmt.Errorf("read manifest: %w", err)
	}
	if err := localfile.Write(own, kubernetesVersion.ReplaceAll(text, []byte("${1}"+version))); err != nil {
		return "", err
	}
	return own, r.GiveToUser(own)
}

// present starts the cluster, prints how to use it, and waits until ctx ends.
func present(ctx context.Context, r *rig.Rig, manifest string, shown *steps) error {
	forwarded, err := r.Forward(ctx, clusterName)
	if err != nil {
		return err
	}
	defer forwarded.Close()
	start := time.Now()
	title := "Cluster " + clusterName
	if err := shown.runWithProgress(title, func(progress *rig.Progress) error {
		if err := r.KubectlApply(ctx, forwarded, manifest); err != nil {
			return err
		}
		ready, cancel := context.WithTimeout(ctx, readyWithin)
		defer cancel()
		if err := r.AwaitReady(ready, clusterName, progress); err != nil {
			return err
		}
		return forwarded.AwaitCluster(ctx)
	}); err != nil {
		return err
	}
	after := time.Since(start)
	page, stop, err := forwarded.UI(ctx)
	if err != nil {
		return err
	}
	defer stop()
	writeLastScreen(shown.out, lastScreen{forwarded, page, manifest, removal(r.Options), r.Release(""), after})
	<-ctx.Done()
	return nil
}

// lastScreen is what a user of the quickstart needs to know.
type lastScreen struct {
	forwarded *rig.Forwarded
	// page is the URL of the web UI.
	page              string
	manifest, removal string
	// release is the version of the real distribution that runs, or "" for the stand-in.
	release string
	after   time.Duration
}

// runs says what runs on the machine.
func (s lastScreen) runs() string {
	if s.release != "" {
		return "The real " + s.release + " runs on its machine."
	}
	return "A stand-in for K3s runs real Kubernetes components on its machine."
}

// writeLastScreen prints how to use, stop and remove the quickstart. It fits on a terminal of 24 lines.
func writeLastScreen(out io.Writer, s lastScreen) {
	fmt.Fprintf(out, `
Cluster %[1]s is Ready, %[2]s after it was applied. %[8]s

Open in a browser on this machine:
  %[7]s

Try in another terminal:
  bin/kubectl %[3]s get nodes -o wide
  bin/kubectl %[4]s get clusters.provisioning.cattle.io,machines
  bin/drover explain %[1]s %[4]s

Change the cluster    edit %[5]s, then: bin/kubectl %[4]s apply -f %[5]s
Stop, keep the data   Ctrl-C
Remove everything     %[6]s
`, clusterName, s.after.Round(time.Second), s.forwarded.Cluster, s.forwarded.Management, s.manifest, s.removal, s.page,
		s.runs())
}

// removal returns the command that removes this quickstart.
func removal(options rig.Options) string {
	if options.Name == "quickstart" {
		return "make quickstart-down"
	}
	return fmt.Sprintf("scripts/quickstart-down --name=%s --data-dir=%s", options.Name, options.Dir)
}

// ignoreInterrupt makes Ctrl-C an orderly end. It ignores errors of interrupted calls, but not the failure to stop
// something.
func ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, rig.ErrStop) {
		return err
	}
	return nil
}
