package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/apply"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/operate/status"
)

// editOptions are the flags of the commands that change a cluster, in addition to inspectOptions.
type editOptions struct {
	*inspectOptions
	dryRun, wait, yes bool
	timeout           time.Duration
	environ           []string
	// isTerminal, terminal and now are replaced in tests.
	isTerminal func(io.Reader) bool
	terminal   func(out io.Writer) *terminal
	now        func() time.Time
}

func newEditOptions(environ []string, o *inspectOptions) *editOptions {
	return &editOptions{inspectOptions: o, environ: environ, isTerminal: onTerminal, terminal: terminalOf,
		now: time.Now}
}

// helpOfEdits is the part of the help that all commands share that change the machines of a cluster.
const helpOfEdits = `The command first shows what the change does to each machine, as drover preview does, and asks.
Without a terminal, it needs --yes. It then writes the change once. It refuses if another user or
program has changed the cluster since the preview. With --dry-run, it only shows the preview.

With --wait, the command follows the cluster, as drover status --watch does, until the change is
done. If you stop the command, the change continues. A cluster that is Failed for a minute ends the
wait.

The command uses your permissions. You must be allowed to get and patch the Cluster, and to read
what drover preview reads.

Exit codes: 0 the change is written, or the cluster already has it, and with --wait it is done; 1 an
error. With --wait, 1 also means that the cluster failed, or that the change is not done within
--timeout.

Exit codes with --dry-run: 0 no machine would change; 1 an error, or no possible plan for some
machine; 2 machines would change; 3 some would be replaced.

-o json and -o yaml print the type Report of package pkg/operate/preview.`

// addFollowing adds the flags that all these commands have.
func (o *editOptions) addFollowing(cmd *cobra.Command, dryRun, wait string) {
	o.addFlags(cmd, o.environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, dryRun)
	o.addWait(cmd, wait)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return o.complete(cmd, withoutConsent(o.environ, "version"))
	}
}

func (o *editOptions) addWait(cmd *cobra.Command, wait string) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, wait)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "longest time for which --wait waits; 0 means forever")
}

func (o *editOptions) complete(cmd *cobra.Command, environ []string) error {
	if err := o.inspectOptions.complete(cmd, environ); err != nil {
		return err
	}
	switch {
	case o.timeout < 0:
		return fmt.Errorf("--timeout: %s is negative; use 0 to wait forever", o.timeout)
	case o.timeout > 0 && !o.wait:
		return errors.New("--timeout has no effect without --wait")
	}
	return nil
}

// seen is a change with its preview.
type seen struct {
	change edit.Change
	report preview.Report
}

// run takes a change to its end: it shows the preview, asks, writes and waits.
func (o *editOptions) run(cmd *cobra.Command, name string,
	changing func(*provv1.Cluster, edit.Releases) (edit.Change, error)) error {
	ctx := cmd.Context()
	s, err := meanwhile(ctx, func() (seen, error) { return o.look(ctx, name, changing) })
	if err != nil {
		return err
	}
	whole := s.report.Cluster
	if s.change.IsEmpty() {
		cmd.PrintErrf("Cluster %s already has what you request; nothing is written\n", whole)
	}
	if err := o.print(cmd.OutOrStdout(), s.report, func(w io.Writer) { printReport(w, s.report) }); err != nil {
		return err
	}
	switch {
	case o.dryRun:
		return verdict(cmd, s.report)
	case s.report.Problems() > 0:
		return fmt.Errorf("nothing was written: cannot make plans for %d machines; see their problems",
			s.report.Problems())
	}
	generation := s.change.Before.Generation
	if !s.change.IsEmpty() {
		if err := o.agree(cmd, "Change cluster "+whole+"? [y/N] ", "y", "yes"); err != nil {
			return err
		}
		written, err := o.write(ctx, s.change)
		if err != nil {
			return err
		}
		generation = written.Generation
		cmd.PrintErrf("The change of cluster %s is written\n", whole)
	}
	if o.wait {
		return o.await(cmd, name, status.Goal{Generation: generation})
	}
	cmd.PrintErrf("drover status %s -n %s --watch follows it\n", name, s.change.Before.Namespace)
	return nil
}

// look reads the cluster and previews the change.
func (o *editOptions) look(ctx context.Context, name string,
	changing func(*provv1.Cluster, edit.Releases) (edit.Change, error)) (seen, error) {
	r, err := o.reader(ctx, o.inNamespace())
	if err != nil {
		return seen{}, err
	}
	defer r.Close()
	cluster, err := r.Cluster(name)
	if err != nil {
		return seen{}, err
	}
	change, err := changing(cluster.DeepCopy(), r.Releases())
	if err != nil {
		return seen{}, err
	}
	report, err := r.PreviewChange(change)
	return seen{change, report}, err
}

// agree asks the user, unless --yes answers. It returns an error if the answer is none of the accepted ones.
func (o *editOptions) agree(cmd *cobra.Command, question string, accepted ...string) error {
	if o.yes {
		return nil
	}
	if !o.isTerminal(cmd.InOrStdin()) {
		return errors.New("there is no terminal to ask on, and nothing was written; --yes continues without a question")
	}
	cmd.PrintErr(question)
	answer, err := readLine(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("read the answer; nothing was written: %w", err)
	}
	if slices.Contains(accepted, answer) {
		return nil
	}
	return fmt.Errorf("the answer is not %s; nothing was written", accepted[0])
}

// applier writes changes with the permissions of the user.
func (o *editOptions) applier() (*apply.Writer, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	return apply.New(config, Version)
}

func (o *editOptions) write(ctx context.Context, change edit.Change) (*provv1.Cluster, error) {
	w, err := o.applier()
	if err != nil {
		return nil, err
	}
	return w.Change(ctx, change)
}

// await follows a cluster until it reaches a goal. It shows on standard error what drover status --watch shows.
func (o *editOptions) await(cmd *cobra.Command, name string, goal status.Goal) error {
	ctx := cmd.Context()
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		ctx = limited
	}
	look := &statusOptions{inspectOptions: o.inspectOptions, environ: o.environ, terminal: o.terminal, now: o.now}
	err := look.followTo(ctx, cmd.ErrOrStderr(), name, &goal)
	told := fmt.Sprintf("drover status %s -n %s --watch follows it", name, o.inNamespace())
	switch {
	case errors.Is(err, context.DeadlineExceeded) && o.timeout > 0:
		return fmt.Errorf("not done within %s, and continues; %s: %w", o.timeout, told, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the wait has ended, and the change continues; %s: %w", told, err)
	}
	return err
}

// clusterPools completes the name of a cluster, and then its pools with their sizes.
func (o *editOptions) clusterPools(cmd *cobra.Command, args []string, word string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return o.clusterNames(cmd, args, word)
	}
	words, directive := o.suggest(cmd, func(r *inspect.Reader) ([]string, error) {
		cluster, err := r.Cluster(args[0])
		if err != nil || cluster.Spec.RKEConfig == nil {
			return nil, err
		}
		var out []string
		for i := range cluster.Spec.RKEConfig.MachinePools {
			out = append(out, cluster.Spec.RKEConfig.MachinePools[i].Name+"=")
		}
		return out, nil
	})
	return words, directive | cobra.ShellCompDirectiveNoSpace
}
