// Command drover-quickstart is "make quickstart" and "make quickstart-down": one real cluster on this machine, made by the rig.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-io/drover/tests/testbed/rig"
)

const (
	clusterName = "quickstart"
	readyWithin = 10 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var bin, manifest string
	root := &cobra.Command{
		Use: "drover-quickstart", Short: "One real cluster on this machine", SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return becomeRoot() },
	}
	root.PersistentFlags().StringVar(&bin, "bin", "bin", "folder with the programs")
	up := &cobra.Command{Use: "up", Short: "Start, or go on with, the quickstart; stays in the foreground", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		options, err := options(bin, cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return runUp(cmd.Context(), options, manifest, cmd.OutOrStdout())
	}}
	up.Flags().StringVar(&manifest, "manifest", "docs/examples/quickstart.yaml", "what to apply")
	down := &cobra.Command{Use: "down", Short: "Remove everything the quickstart made", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		options, err := options(bin, cmd.OutOrStdout())
		if err != nil {
			return err
		}
		if err := options.EndForeground(cmd.Context()); err != nil {
			return err
		}
		if err := rig.Destroy(cmd.Context(), options); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "The quickstart is removed. The machine image stays in", options.Cache)
		return nil
	}}
	root.AddCommand(up, down)
	return root
}

// becomeRoot makes sure that this runs as root, asking for it where somebody can answer.
func becomeRoot() error {
	if os.Geteuid() == 0 {
		return nil
	}
	const why = "the quickstart makes network namespaces and boots machines, which needs root"
	sudo, err := exec.LookPath("sudo")
	if err != nil || !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New(why)
	}
	fmt.Fprintln(os.Stderr, "quickstart:", why+"; asking sudo")
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	keep := "--preserve-env=HOME,XDG_STATE_HOME,XDG_CACHE_HOME"
	return syscall.Exec(sudo, append([]string{sudo, keep, self}, os.Args[1:]...), os.Environ())
}

func options(bin string, log io.Writer) (rig.Options, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return rig.Options{}, fmt.Errorf("find programs: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return rig.Options{}, fmt.Errorf("find cache folder: %w", err)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return rig.Options{}, fmt.Errorf("find home folder: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return rig.Options{
		Name: "quickstart", Dir: filepath.Join(state, "drover", "quickstart"), Bin: bin, Cache: filepath.Join(cache, "drover", "images"),
		Versions: []string{"v1.36.3+k3s1", "v1.36.3+rke2r1"}, Log: log,
	}, nil
}

func runUp(ctx context.Context, options rig.Options, manifest string, out io.Writer) error {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	release, err := options.Claim()
	if err != nil {
		return err
	}
	defer release()
	fmt.Fprintln(out, "Starting the management plane, Drover and the lab. In the lab's machines a stand-in for K3s runs real Kubernetes components.")
	r, err := rig.Start(ctx, options)
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	defer func() {
		fmt.Fprintln(out, "\nStopping; the data stays. \"make quickstart\" goes on with it, \"make quickstart-down\" removes it.")
		_ = r.Stop(context.WithoutCancel(ctx))
	}()
	forwarded, err := r.Forward(ctx, clusterName)
	if err != nil {
		return err
	}
	defer forwarded.Close()
	fmt.Fprintf(out, "Management plane: bin/kubectl --kubeconfig %s get clusters.provisioning.cattle.io -A\nApplying %s\n", forwarded.ManagementKubeconfig, manifest)
	if err := r.Apply(ctx, text); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	progress := &rig.Progress{Out: out, Terminal: isTerminal(out)}
	if err := r.AwaitReady(ready, clusterName, progress); err != nil {
		return ignoreInterrupt(ctx, err)
	}
	kubeconfig, err := forwarded.AwaitCluster(ready)
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	fmt.Fprintf(out, `
The cluster is ready. Its kubeconfig: %[1]s

Try, in another terminal:
  bin/kubectl --kubeconfig %[1]s get nodes -o wide
  bin/kubectl --kubeconfig %[2]s -n fleet-default get clusters.provisioning.cattle.io,machines
  bin/kubectl --kubeconfig %[2]s -n fleet-default describe clusters.provisioning.cattle.io %[3]s

Ctrl-C stops everything and keeps the data.
`, kubeconfig, forwarded.ManagementKubeconfig, clusterName)
	<-ctx.Done()
	return nil
}

// ignoreInterrupt makes Ctrl-C an orderly end.
func ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
