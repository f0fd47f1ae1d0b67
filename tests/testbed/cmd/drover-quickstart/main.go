// Command drover-quickstart is "make quickstart" and "make quickstart-down": one real cluster on this machine, made
// by the rig.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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

// flags are the flags of both commands.
type flags struct {
	bin, name, dataDir string
}

func command() *cobra.Command {
	var given flags
	root := &cobra.Command{
		Use: "drover-quickstart", Short: "Run one real cluster on this machine", SilenceUsage: true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if os.Geteuid() != 0 {
				return errors.New(
					"the quickstart creates network namespaces and boots machines, which needs root: use " +
						"scripts/quickstart")
			}
			return nil
		},
	}
	root.PersistentFlags().StringVar(&given.bin, "bin", "bin", "`folder` with the programs")
	root.PersistentFlags().StringVar(&given.name, "name", "quickstart",
		"`name` of the lab; two with different names and folders can run at the same time")
	root.PersistentFlags().StringVar(&given.dataDir, "data-dir", "",
		"`folder` for everything that is kept (default: $XDG_STATE_HOME/drover/NAME)")
	root.AddCommand(upCommand(&given), downCommand(&given))
	return root
}

func upCommand(given *flags) *cobra.Command {
	var manifest, installer string
	shown := steps{number: 1, total: 2}
	up := &cobra.Command{
		Use: "up", Short: "Start the quickstart or continue it, and stay in the foreground", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown.out, shown.terminal = cmd.OutOrStdout(), isTerminal(cmd.OutOrStdout())
			options, err := given.options(shown.log())
			if err != nil {
				return err
			}
			options.Installers = filepath.SplitList(installer)
			return runUp(cmd.Context(), options, manifest, &shown)
		},
	}
	up.Flags().StringVar(&manifest, "manifest", "docs/examples/quickstart.yaml",
		"`file` to apply; its cluster must be named quickstart")
	up.Flags().StringVar(&installer, "installer", "",
		"`path` of a real RKE2 or K3s (docs/real-distributions.md); later runs do not need it")
	up.Flags().IntVar(&shown.number, "step", shown.number, "`number` of the first step that is shown")
	up.Flags().IntVar(&shown.total, "steps", shown.total, "`number` of all steps that are shown")
	return up
}

func downCommand(given *flags) *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Remove everything the quickstart made", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := given.options(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if err := options.EndForeground(cmd.Context()); err != nil {
				return err
			}
			if err := rig.RemoveContexts(options); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "The contexts of the quickstart may still be in your kubeconfig:", err)
			}
			if err := rig.Destroy(cmd.Context(), options); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The quickstart is removed. The machine image stays in", options.Cache)
			return nil
		},
	}
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
		Versions: []string{"v1.36.3+k3s1", "v1.36.3+rke2r1"}, Log: log, Owner: callingUser(),
	}, nil
}

// callingUser returns the user who runs the quickstart through sudo, from variables that scripts/host sets. It returns
// nil for root.
func callingUser() *rig.Owner {
	var owner rig.Owner
	if _, err := fmt.Sscanf(os.Getenv("DROVER_BUILD_USER"), "%d:%d", &owner.UID, &owner.GID); err != nil {
		return nil
	}
	return &owner
}

// dir returns the data folder.
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
