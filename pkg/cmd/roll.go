package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// rollOptions are the flags of drover roll in addition to inspectOptions.
type rollOptions struct {
	*inspectOptions
	pools        []string
	to           string
	dryRun, wait bool
}

// rollInterval is the polling interval of --wait.
const rollInterval = 5 * time.Second

func newRollCommand(environ []string, o *inspectOptions) *cobra.Command {
	r := &rollOptions{inspectOptions: o}
	cmd := &cobra.Command{
		Use:   "roll CLUSTER",
		Short: "Move the machines of a cluster to another version of plan rendering",
		Long: `Move the machines of a cluster to another version of plan rendering.

Each machine is pinned to the version of its first plan, so an upgrade of Drover changes no plan.
This command requests that machines move to the version of --to, or to the newest version. The
server moves them by the rules of every rollout. It goes tier by tier, with the concurrency and the
drain of the upgrade strategy.

The command records the request on the Cluster, in the annotation drover.io/roll-render-version.
The same request again changes nothing. To go back, request the earlier version in the same way.

With --dry-run, the command only shows what would happen, as drover preview does.

The command uses your permissions: you must be allowed to patch the Cluster.

The command uses the settings that the server has published in namespace drover-system. Flags such
as --system-default-registry, or DROVER_… in the environment, override them.

Exit codes: 0 the move is requested, or no machine has to move; 1 an error; 2 with --dry-run,
machines would change.

-o json and -o yaml print the type Roll of package pkg/operate/inspect.`,
		Example: `  # which machines would move, and which would restart?
  drover roll demo --dry-run

  # move the workers first, and wait until they are done
  drover roll demo --pool workers --wait

  # move all other machines
  drover roll demo`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&r.pools, "pool", nil,
		"`names` of machine pools whose machines move; without the flag, all machines move")
	f.StringVar(&r.to, "to", "", "`version` to move to; empty means the newest")
	f.BoolVar(&r.dryRun, "dry-run", false, "show what would happen, and request nothing")
	f.BoolVar(&r.wait, "wait", false, "return after these machines have moved and the cluster waits for nothing")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	_ = cmd.RegisterFlagCompletionFunc("to",
		cobra.FixedCompletions(render.Versions{}.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("pool", completing(environ, r.poolNames))
	return cmd
}

// look reads the current state with a new Reader.
func (o *rollOptions) look(ctx context.Context, name string) (inspect.Roll, *planner.Explanation, error) {
	r, err := o.reader(ctx, o.inNamespace())
	if err != nil {
		return inspect.Roll{}, nil, err
	}
	defer r.Close()
	roll, err := r.Roll(name, o.to, o.pools)
	if err != nil {
		return roll, nil, err
	}
	explained, err := r.Explain(name)
	return roll, explained.Decision, err
}

func (o *rollOptions) run(cmd *cobra.Command, name string) error {
	roll, _, err := o.look(cmd.Context(), name)
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), roll, func(w io.Writer) { printRoll(w, roll) }); err != nil {
		return err
	}
	switch {
	case o.dryRun:
		return rollVerdict(cmd, roll)
	case roll.Command != roll.Was:
		if err := o.ask(name, roll.To); err != nil {
			return err
		}
	}
	if o.wait {
		return o.await(cmd, name)
	}
	return nil
}

// rollVerdict converts the effect to an exit code.
func rollVerdict(cmd *cobra.Command, roll inspect.Roll) error {
	for _, m := range roll.Machines {
		if m.Problem != "" {
			return fmt.Errorf("cannot make a plan for machine %s: %s", m.Name, m.Problem)
		}
	}
	if roll.Result == planner.ClassNone {
		return nil
	}
	cmd.SilenceErrors = true
	return exitError(exitChanges)
}

// ask records the command on the Cluster. It keeps concurrent commands for other pools.
func (o *rollOptions) ask(name, to string) error {
	c, err := o.writer()
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := askToRoll(c.Provisioning.Cluster(), o.inNamespace(), name, to, o.pools); err != nil {
		return fmt.Errorf("write the command to cluster %s/%s: %w", o.inNamespace(), name, err)
	}
	return nil
}

// clusterPatcher is the client that askToRoll needs.
type clusterPatcher interface {
	Get(namespace, name string, options metav1.GetOptions) (*provv1.Cluster, error)
	Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (*provv1.Cluster, error)
}

func askToRoll(clusters clusterPatcher, namespace, name, to string, pools []string) error {
	return clients.RetryOnConflict(retry.DefaultRetry, func() error {
		cluster, err := clusters.Get(namespace, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		command := planner.ParseRoll(cluster.Annotations[rkev1.RollAnnotation]).With(to, pools...).String()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": cluster.ResourceVersion, "annotations": map[string]string{rkev1.RollAnnotation: command},
		}})
		if err != nil {
			return fmt.Errorf("encode the command: %w", err)
		}
		_, err = clusters.Patch(namespace, name, types.MergePatchType, patch)
		return err
	})
}

// await returns when all machines have moved. It prints each change of what the roll waits for.
func (o *rollOptions) await(cmd *cobra.Command, name string) error {
	ticker := time.NewTicker(rollInterval)
	defer ticker.Stop()
	told := ""
	for {
		roll, decision, err := o.look(cmd.Context(), name)
		if err != nil {
			return err
		}
		text, err := rollWait(roll, decision)
		if text == "" || err != nil {
			return err
		}
		if text != told {
			cmd.PrintErrln(text)
			told = text
		}
		select {
		case <-cmd.Context().Done():
			return fmt.Errorf("machines still to move: %s: %w", strings.Join(roll.Pending(), ", "), cmd.Context().Err())
		case <-ticker.C:
		}
	}
}

// rollWait describes what the roll waits for, empty if all machines have moved. It returns an error if a user must act.
func rollWait(roll inspect.Roll, decision *planner.Explanation) (string, error) {
	pending := roll.Pending()
	switch {
	case decision == nil:
	case decision.Wait == nil && len(pending) == 0:
		return "", nil
	case decision.Wait == nil:
		if held := roll.HeldUp(); len(held) > 0 {
			return "", fmt.Errorf("the command is recorded, but the remaining machines need a person: %s",
				strings.Join(held, "; "))
		}
	case decision.Wait.NeedsPerson:
		return "", fmt.Errorf("the cluster needs a person: %s", decision.Wait.Message)
	default:
		return decision.Wait.Message, nil
	}
	return "waiting for " + strings.Join(pending, ", "), nil
}

func printRoll(w io.Writer, r inspect.Roll) {
	row(w, "Cluster:", r.Cluster)
	row(w, "To:", "render version "+r.To)
	row(w, "Result:", string(r.Result))
	if r.SettingsUnknown != "" {
		row(w, "Settings:", "not the server's; "+r.SettingsUnknown)
	}
	if len(r.Machines) == 0 {
		return
	}
	heading(w, "Machines:")
	line(w, "NAME", "POOL", "ROLES", "FROM", "CLASS", "DRAIN", "CAUSE")
	for _, m := range r.Machines {
		drain := "no"
		if m.Drained {
			drain = "yes"
		}
		line(w, m.Name, m.Pool, m.Roles, m.From, string(m.Class), drain, rollCause(m))
	}
}

func rollCause(m inspect.RollMachine) string {
	var words []string
	if m.Pending {
		words = append(words, "pending without the command")
	}
	if m.Cause != "" {
		words = append(words, string(m.Cause))
	}
	if m.Held != "" {
		words = append(words, "held: "+m.Held)
	}
	if m.Problem != "" {
		words = append(words, "PROBLEM: "+m.Problem)
	}
	return strings.Join(words, "; ")
}

// poolNames completes the names of the pools of the cluster argument.
func (o *rollOptions) poolNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	r, err := o.quickReader(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer r.Close()
	cluster, err := r.Cluster(args[0])
	if err != nil || cluster.Spec.RKEConfig == nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, pool := range cluster.Spec.RKEConfig.MachinePools {
		names = append(names, pool.Name)
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
