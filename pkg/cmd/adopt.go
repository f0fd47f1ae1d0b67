package cmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// adoptOptions are the flags of drover adopt in addition to inspectOptions.
type adoptOptions struct {
	*inspectOptions
	to           string
	yes, release bool
	limits       adopt.Limits
}

// defaultIdle is the default minimum time since another manager's last write.
const defaultIdle = 5 * time.Minute

// adoptHelp is the long help text of drover adopt.
const adoptHelp = `Show what it would mean to take over a cluster. With --yes, the command takes it over.

A Drover acts only on clusters with the mark of its instance. It marks new clusters for which no
manager has created anything yet, while no Rancher runs in the management cluster. Drover only
watches all other clusters, and writes nothing to them.

The command shows which manager a cluster has, and how its objects differ from those that Drover
would create. It runs the code of the server. For each object, it lists the fields that differ. For
each machine, it shows the class of the change that adoption causes by itself:

  None      nothing happens on the node
  InPlace   files change, and nothing restarts
  Restart   the distribution on the node restarts; with DRAIN, its pods leave first
  Replace   a new machine replaces this one
  Add       a machine is added
  Remove    a machine is removed

The command runs the controllers of the server on the existing objects, and writes nothing. It
lists every object that they would create, change or delete. Objects that affect no node have the
class None. The command does not compare what you may not read, and a note reports it.

A machine with a plan of another manager keeps that plan as it was found. It gets its first plan
from Drover when a user changes the configuration of the cluster, or moves the machine with drover
roll. NEXT shows what that plan does. Machines with plans of a Drover stay pinned to its rendering.

With --yes, the command writes notes on the machines, and then marks the cluster. It refuses:

  * if the cluster has changed since the comparison
  * while the previous manager is alive, or if --from does not name it
  * while an instance leads that is not the one to take the cluster
  * if nodes would restart, without --allow-restart
  * if machines would be added, removed or replaced, without --allow-replace
  * while another Drover works on the cluster, for example restores a snapshot. If that Drover is
    gone, use --allow-under-way. The new instance then continues the work.

If a Drover runs as its own program, its leases show whether it is alive. If it runs inside another
program, nothing shows this. --from is then your confirmation that it has stopped.

--release removes the mark, and the instance that had it stops acting on the cluster. Nothing else
changes.

One instance leads at a time in a management cluster: the holder of the lease drover-system/drover.
All other instances wait. To hand clusters over to another instance, release them, stop the old
instance and start the new one. Adopt the clusters once the new instance leads.

The command uses your permissions. To adopt a cluster, you must be allowed to:

  * patch the Cluster and its Machines
  * read what drover preview reads
  * read the lease kube-system/cattle-controllers and the Deployment cattle-system/rancher
  * read the leases, and the settings that servers have published, in namespace drover-system

The cluster may name Secrets of other namespaces that are not offered to it. After the adoption,
the cluster uses them in your name.

Exit codes: 0 nothing changes by itself, or the command has succeeded; 1 an error or a refusal; 2
machines would change; 3 some machines would be replaced, added or removed.

-o json and -o yaml print the type Adoption of package pkg/operate/inspect.`

func newAdoptCommand(environ []string, o *inspectOptions) *cobra.Command {
	a := &adoptOptions{inspectOptions: o}
	cmd := &cobra.Command{
		Use:   "adopt CLUSTER",
		Short: "Adopt a cluster that Rancher or another Drover manages, or release a cluster",
		Long:  adoptHelp,
		Example: `  # which manager does the cluster have, and what would change?
  drover adopt demo

  # adopt a cluster of Rancher, after Rancher is switched off
  drover adopt demo --from rancher --yes

  # release the cluster, so that another Drover can adopt it once that Drover leads here
  drover adopt demo --release --yes`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE:              func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVarP(&a.yes, "yes", "y", false, "adopt or release the cluster; without the flag, nothing is written")
	f.BoolVar(&a.release, "release", false, "release the cluster instead")
	f.StringVar(&a.to, "to", "", "`instance` that takes the cluster; optional if only one instance has led here")
	f.StringVar(&a.limits.From, "from", "", "`manager` that has the cluster and no longer manages it: "+
		adopt.FromRancher+", or the instance of a Drover")
	f.BoolVar(&a.limits.AllowRestart, "allow-restart", false, "adopt even if nodes restart")
	f.BoolVar(&a.limits.AllowReplace, "allow-replace", false,
		"adopt even if nodes restart, or machines are replaced, added or removed")
	f.DurationVar(&a.limits.Idle, "idle", defaultIdle,
		"minimum time since another manager wrote what only managers write")
	f.BoolVar(&a.limits.AllowUnderWay, "allow-under-way", false,
		"adopt even if another Drover, which is gone, was working on the cluster, and continue that work")
	for _, flag := range []string{"to", "from", "allow-restart", "allow-replace", "allow-under-way"} {
		cmd.MarkFlagsMutuallyExclusive("release", flag)
	}
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{adopt.FromRancher},
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.NoFileCompletions)
	return cmd
}

func (o *adoptOptions) run(cmd *cobra.Command, name string) error {
	if o.release {
		return o.letGo(cmd, name)
	}
	r, err := o.reader(cmd.Context(), o.inNamespace())
	if err != nil {
		return err
	}
	defer r.Close()
	found, err := r.Adoption(cmd.Context(), name, o.to)
	if err != nil {
		return err
	}
	o.limits.Now = time.Now()
	if err := o.print(cmd.OutOrStdout(), found, func(w io.Writer) {
		printAdoption(w, found, adopt.Check(found, o.limits))
	}); err != nil {
		return err
	}
	if !o.yes {
		return adoptVerdict(cmd, found)
	}
	switch found.Owner {
	case inspect.OwnerSame:
		return nil
	case inspect.OwnerNone:
		return errors.New("no manager has created objects for the cluster yet: " +
			"a running Drover adopts it without this command, unless Rancher also runs here")
	case inspect.OwnerOther, inspect.OwnerReleased, inspect.OwnerUnmarked:
	}
	c, err := o.writer()
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := adopt.Take(cmd.Context(), c, found, o.limits); err != nil {
		return err
	}
	cmd.PrintErrf("instance %[2]s now manages cluster %[1]s\n", found.Cluster, found.Instance)
	return nil
}

// letGo releases a cluster.
func (o *adoptOptions) letGo(cmd *cobra.Command, name string) error {
	r, err := o.reader(cmd.Context(), o.inNamespace())
	if err != nil {
		return err
	}
	defer r.Close()
	cluster, err := r.Cluster(name)
	if err != nil {
		return err
	}
	hasChildren, err := r.HasChildren(name)
	if err != nil {
		return err
	}
	underWay, err := r.UnderWay(name)
	if err != nil {
		return err
	}
	if !o.yes {
		return fmt.Errorf("no Drover would manage cluster %s/%s until it is adopted again; add --yes to release it",
			cluster.Namespace, cluster.Name)
	}
	c, err := o.writer()
	if err != nil {
		return err
	}
	defer c.Stop()
	instance, err := adopt.Release(c, cluster, hasChildren, underWay...)
	if err == nil {
		cmd.PrintErrf("instance %s no longer manages cluster %s/%s; its running work ends within seconds. "+
			"Another instance can adopt the cluster once that instance leads\n", instance, cluster.Namespace,
			cluster.Name)
	}
	return err
}

// adoptVerdict returns the exit code for the effects of an adoption. A missing --from is no error without --yes,
// because such a run writes nothing.
func adoptVerdict(cmd *cobra.Command, a inspect.Adoption) error {
	if len(a.Problems) > 0 {
		return errors.New("the cluster cannot be adopted; the output lists the reasons")
	}
	code := exitError(0)
	switch a.Result {
	case planner.ClassNone:
		return nil
	case planner.ClassReplace, planner.ClassAdd, planner.ClassRemove:
		code = exitReplaces
	default:
		code = exitChanges
	}
	cmd.SilenceErrors = true
	return code
}

// ownerText describes the current manager of a cluster.
func ownerText(a inspect.Adoption) string {
	return map[inspect.Ownership]string{
		inspect.OwnerSame: "instance " + a.Instance + " of Drover, which is also the adopting instance",
		inspect.OwnerNone: "no manager yet; a running Drover adopts it without this command, unless Rancher " +
			"also runs here",
		inspect.OwnerOther:    "instance " + a.Mark + " of Drover",
		inspect.OwnerReleased: "no manager; instance " + a.Mark + " of Drover has released it",
		inspect.OwnerUnmarked: "a manager that leaves no mark, usually Rancher",
	}[a.Owner]
}

func printAdoption(w io.Writer, a inspect.Adoption, refused error) {
	row(w, "Cluster:", a.Cluster)
	row(w, "Managed by:", ownerText(a))
	row(w, "Adopted by:", "instance "+a.Instance)
	if a.Activity != nil {
		row(w, "Last written:", a.Activity.What+", by "+a.Activity.Writer+", "+a.Activity.At.UTC().Format(time.RFC3339))
	}
	row(w, "Result:", string(a.Result))
	if len(a.Machines) > 0 {
		heading(w, "Machines:")
		line(w, "NAME", "POOL", "ROLES", "CLASS", "DRAIN", "STAGE", "PLAN", "NEXT", "MESSAGE")
		for _, m := range a.Machines {
			printAdoptedMachine(w, m)
		}
	}
	if len(a.Objects) > 0 {
		heading(w, "Objects that differ:")
		line(w, "VERB", "KIND", "NAME", "CLASS", "FIELD")
		for _, object := range a.Objects {
			if len(object.Fields) == 0 {
				line(w, string(object.Verb), object.Kind, object.Name, string(object.Class), object.Problem)
			}
			for _, field := range object.Fields {
				line(w, string(object.Verb), object.Kind, object.Name, string(field.Class), field.Field)
			}
		}
	}
	printRest(w, preview.Report{Order: a.Order, Warnings: a.Warnings, Notes: a.Notes})
	if refusal, ok := errors.AsType[*adopt.Refusal](refused); ok {
		heading(w, "Reasons against --yes:")
		for _, reason := range refusal.Reasons {
			_, _ = fmt.Fprintln(w, "  "+reason)
		}
	}
}

func printAdoptedMachine(w io.Writer, m inspect.AdoptedMachine) {
	name, drain, stage, plan := m.Name, "no", "", "Drover's"
	if name == "" {
		name, plan = "(new)", ""
	}
	if m.Drained {
		drain = "yes"
	}
	if m.Stage > 0 {
		stage = strconv.Itoa(m.Stage)
	}
	if m.AsFound {
		plan = "as found"
	}
	var words []string
	if m.InitNode {
		words = append(words, "init node")
	}
	if m.Held != "" {
		words = append(words, "held: "+m.Held)
	}
	if m.Problem != "" {
		words = append(words, "PROBLEM: "+m.Problem)
	}
	line(w, name, m.Pool, m.Roles, string(m.Class), drain, stage, plan, string(m.Next), strings.Join(words, "; "))
}
