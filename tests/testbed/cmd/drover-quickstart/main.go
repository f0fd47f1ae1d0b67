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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// flags are what both commands take.
type flags struct {
	bin, name, dataDir string
}

func command() *cobra.Command {
	var given flags
	var manifest string
	root := &cobra.Command{
		Use: "drover-quickstart", Short: "One real cluster on this machine", SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return becomeRoot() },
	}
	root.PersistentFlags().StringVar(&given.bin, "bin", "bin", "folder with the programs")
	root.PersistentFlags().StringVar(&given.name, "name", "quickstart", "name of the lab; two with different names and folders can run side by side")
	root.PersistentFlags().StringVar(&given.dataDir, "data-dir", "", "folder for everything that is kept (default: $XDG_STATE_HOME/drover/NAME)")
	up := &cobra.Command{Use: "up", Short: "Start, or go on with, the quickstart; stays in the foreground", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		options, err := given.options(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return runUp(cmd.Context(), options, manifest, cmd.OutOrStdout())
	}}
	up.Flags().StringVar(&manifest, "manifest", "docs/examples/quickstart.yaml", "what to apply; its cluster must be named quickstart")
	down := &cobra.Command{Use: "down", Short: "Remove everything the quickstart made", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		options, err := given.options(cmd.OutOrStdout())
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

func (f flags) options(log io.Writer) (rig.Options, error) {
	bin, err := filepath.Abs(f.bin)
	if err != nil {
		return rig.Options{}, fmt.Errorf("find programs: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return rig.Options{}, fmt.Errorf("find cache folder: %w", err)
	}
	dir, err := f.dir()
	if err != nil {
		return rig.Options{}, err
	}
	return rig.Options{
		Name: f.name, Dir: dir, Bin: bin, Cache: filepath.Join(cache, "drover", "images"),
		Versions: []string{"v1.36.3+k3s1", "v1.36.3+rke2r1"}, Log: log,
	}, nil
}

// dir is where the data is kept.
func (f flags) dir() (string, error) {
	if f.dataDir != "" {
		dir, err := filepath.Abs(f.dataDir)
		if err != nil {
			return "", fmt.Errorf("find data folder: %w", err)
		}
		return dir, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "drover", f.name), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find home folder: %w", err)
	}
	return filepath.Join(home, ".local", "state", "drover", f.name), nil
}

// runUp runs the quickstart until it is told to stop, which is an orderly end at any moment. On every way out all that was started
// has ended.
func runUp(ctx context.Context, options rig.Options, manifest string, out io.Writer) (err error) {
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
		err = errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}()
	return ignoreInterrupt(ctx, present(ctx, r, manifest, text, out))
}

// present brings the cluster up, says how to use it, and stays until ctx ends.
func present(ctx context.Context, r *rig.Rig, manifest string, text []byte, out io.Writer) error {
	forwarded, err := r.Forward(ctx, clusterName)
	if err != nil {
		return err
	}
	defer forwarded.Close()
	fmt.Fprintf(out, "Management plane: bin/kubectl --kubeconfig %s get clusters.provisioning.cattle.io -A\nApplying %s\n", forwarded.ManagementKubeconfig, manifest)
	start := time.Now()
	if err := r.Apply(ctx, text); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	progress := &rig.Progress{Out: out, Terminal: isTerminal(out)}
	if err := r.AwaitReady(ready, clusterName, progress); err != nil {
		return err
	}
	kubeconfig, err := forwarded.AwaitCluster(ready)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `
The cluster is ready, %[4]s after it was applied. Its kubeconfig: %[1]s

Try, in another terminal:
  bin/kubectl --kubeconfig %[1]s get nodes -o wide
  bin/kubectl --kubeconfig %[2]s -n fleet-default get clusters.provisioning.cattle.io,machines
  bin/kubectl --kubeconfig %[2]s -n fleet-default describe clusters.provisioning.cattle.io %[3]s

Ctrl-C stops everything and keeps the data.
`, kubeconfig, forwarded.ManagementKubeconfig, clusterName, time.Since(start).Round(time.Second))
	<-ctx.Done()
	return nil
}

// ignoreInterrupt makes Ctrl-C an orderly end: what it broke off is no error, but what could not be stopped is.
func ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, rig.ErrStop) {
		return err
	}
	return nil
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
