package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
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

func newAdoptCommand(environ []string, o *inspectOptions) *cobra.Command {
	a := &adoptOptions{inspectOptions: o}
	cmd := &cobra.Command{
		Use:   "adopt CLUSTER",
		Short: "Take over a cluster that Rancher or another Drover has made, or let go of one",
		Long: `Say what taking over a cluster would mean, and with --yes do it.

A Drover acts only on clusters with the mark of its instance, and marks new ones that nobody has made anything for while no Rancher runs beside it. All
others it watches, and writes nothing to them. This command says whose a cluster is, and how what there is differs from what Drover would have made, with the code of
the server that then acts: for each object the fields, for each machine the class of the change that adoption brings by itself:

  None      nothing happens on the node
  InPlace   files change, nothing restarts
  Restart   the distribution on the node restarts; with DRAIN its pods leave first
  Replace   a new machine takes the place of this one
  Add       a machine comes
  Remove    a machine goes

Every object that the controllers of the server would make, change or delete is listed, those that no node notices with the class None. They are run for that on
what there is, and write nothing. What you may not read is not compared, and a note says so.

A machine whose plan another manager made keeps it as it was found, until somebody changes the configuration of the cluster or moves the machine with
drover roll; NEXT is what its first plan of Drover's then does. Machines with plans of a Drover are pinned to its rendering anyway.

With --yes the machines are noted, and then the cluster is marked, only if it is still the one that was looked at. That is refused while the manager
before is seen alive or is not named with --from, while another instance leads than the one that takes the cluster, when nodes would restart without
--allow-restart, and when machines would come or go without --allow-replace. Of a Drover that is a program of its own its leases tell that it is alive;
of one inside another program nothing does, so that --from is your word alone. What another Drover is at has to end first, such as the restore of a
snapshot, unless that one is gone and --allow-under-way has this one go on with it. --release takes the mark off again, and with it the hands of the
instance that has it; nothing else changes.

One instance leads at a time in a management cluster, the one that holds the lease drover-system/drover; all others wait. To hand clusters over to
another: release them, stop the one, start the other, and adopt them once that leads.

It works with your rights: to adopt, you need to be allowed to patch the Cluster and its Machines, and to read what drover preview reads, the lease
kube-system/cattle-controllers, the Deployment cattle-system/rancher, and in namespace drover-system the settings that servers have published and the
leases. Secrets of other namespaces that the cluster names are used in your name from then on, as far as they are not offered to it.

Exit codes: 0 nothing changes by itself, or it was done; 1 an error or a refusal; 2 machines would be changed; 3 some would be replaced, added or
removed.

-o json and -o yaml print the type Adoption of package pkg/operate/inspect.`,
		Example: `  # whose is it, and what would change?
  drover adopt demo

  # Rancher is switched off: take its cluster
  drover adopt demo --from rancher --yes

  # let go of it, so that another Drover may take it once that leads here
  drover adopt demo --release --yes`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE:              func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVarP(&a.yes, "yes", "y", false, "do it; without it nothing is written")
	f.BoolVar(&a.release, "release", false, "let go of the cluster instead")
	f.StringVar(&a.to, "to", "", "`instance` that takes the cluster; may be left out when one alone has led here")
	f.StringVar(&a.limits.From, "from", "", "`manager` that has the cluster and manages it no more: "+adopt.FromRancher+", or the instance of a Drover")
	f.BoolVar(&a.limits.AllowRestart, "allow-restart", false, "adopt although nodes restart for it")
	f.BoolVar(&a.limits.AllowReplace, "allow-replace", false, "adopt although nodes restart, and machines are replaced, added or removed")
	f.DurationVar(&a.limits.Idle, "idle", defaultIdle, "for how long nobody else must have written what only a manager writes")
	f.BoolVar(&a.limits.AllowUnderWay, "allow-under-way", false, "adopt although another Drover, which is gone, was at something in the cluster, and go on with that")
	for _, flag := range []string{"to", "from", "allow-restart", "allow-replace", "allow-under-way"} {
		cmd.MarkFlagsMutuallyExclusive("release", flag)
	}
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{adopt.FromRancher}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.NoFileCompletions)
	return cmd
}

func (o *adoptOptions) run(cmd *cobra.Command, name string) error {
	if o.release {
		return o.letGo(cmd, name)
	}
	r, err := o.reader(cmd.Context(), orDefault(o.namespace))
	if err != nil {
		return err
	}
	defer r.Close()
	found, err := r.Adoption(cmd.Context(), name, o.to)
	if err != nil {
		return err
	}
	o.limits.Now = time.Now()
	if err := o.print(cmd.OutOrStdout(), found, func(w io.Writer) { printAdoption(w, found, adopt.Check(found, o.limits)) }); err != nil {
		return err
	}
	if !o.yes {
		return adoptVerdict(cmd, found)
	}
	switch found.Owner {
	case inspect.OwnerSame:
		return nil
	case inspect.OwnerNone:
		return errors.New("nobody has made anything for the cluster yet: a Drover that runs takes it by itself, unless Rancher runs here, too")
	case inspect.OwnerOther, inspect.OwnerReleased, inspect.OwnerUnmarked:
	}
	if err := o.write(func(c *clients.Clients) error { return adopt.Take(cmd.Context(), c, found, o.limits) }); err != nil {
		return err
	}
	cmd.PrintErrf("cluster %s is managed by instance %s now\n", found.Cluster, found.Instance)
	return nil
}

// write calls f with clients that can write.
func (o *adoptOptions) write(f func(*clients.Clients) error) error {
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	c, err := clients.New(config, clients.Options{Version: Version, WithoutDynamic: true})
	if err != nil {
		return err
	}
	defer c.Stop()
	return f(c)
}

// letGo releases a cluster.
func (o *adoptOptions) letGo(cmd *cobra.Command, name string) error {
	cluster, hasChildren, underWay, err := o.marked(cmd.Context(), name)
	if err != nil {
		return err
	}
	if !o.yes {
		return fmt.Errorf("cluster %s/%s would be let go of, and nobody would manage it until it is adopted; --yes does it", cluster.Namespace, cluster.Name)
	}
	return o.write(func(c *clients.Clients) error {
		instance, err := adopt.Release(c, cluster, hasChildren, underWay...)
		if err == nil {
			cmd.PrintErrf("instance %s manages cluster %s/%s no more; wait some seconds for what it is at, and adopt it with another, once that leads\n", instance, cluster.Namespace, cluster.Name)
		}
		return err
	})
}

// adoptVerdict returns the exit code for the effects of an adoption. A missing --from is no error without --yes,
// because such a run writes nothing.
func adoptVerdict(cmd *cobra.Command, a inspect.Adoption) error {
	if len(a.Problems) > 0 {
		return errors.New("the cluster cannot be adopted; see what is in the way")
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
		inspect.OwnerSame:     "instance " + a.Instance + " of Drover, which is the one asked about",
		inspect.OwnerNone:     "nobody yet; a Drover that runs takes it by itself, unless Rancher runs here, too",
		inspect.OwnerOther:    "instance " + a.Mark + " of Drover",
		inspect.OwnerReleased: "nobody; instance " + a.Mark + " of Drover has let go of it",
		inspect.OwnerUnmarked: "somebody who leaves no mark: Rancher, as a rule",
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
		table(w, "NAME", "POOL", "ROLES", "CLASS", "DRAIN", "STAGE", "PLAN", "NEXT", "MESSAGE")
		for _, m := range a.Machines {
			printAdoptedMachine(w, m)
		}
	}
	if len(a.Objects) > 0 {
		heading(w, "Objects that differ:")
		table(w, "VERB", "KIND", "NAME", "CLASS", "FIELD")
		for _, object := range a.Objects {
			if len(object.Fields) == 0 {
				table(w, string(object.Verb), object.Kind, object.Name, string(object.Class), object.Problem)
			}
			for _, field := range object.Fields {
				table(w, string(object.Verb), object.Kind, object.Name, string(field.Class), field.Field)
			}
		}
	}
	printRest(w, preview.Report{Order: a.Order, Warnings: a.Warnings, Notes: a.Notes})
	if refusal, ok := errors.AsType[*adopt.Refusal](refused); ok {
		heading(w, "In the way of --yes:")
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
	table(w, name, m.Pool, m.Roles, string(m.Class), drain, stage, plan, string(m.Next), strings.Join(words, "; "))
}

// marked reads a cluster, whether it has children, and what its instance has under way.
func (o *adoptOptions) marked(ctx context.Context, name string) (cluster *provv1.Cluster, hasChildren bool, underWay []string, err error) {
	r, err := o.reader(ctx, orDefault(o.namespace))
	if err != nil {
		return nil, false, nil, err
	}
	defer r.Close()
	if cluster, err = r.Cluster(name); err != nil {
		return nil, false, nil, err
	}
	if hasChildren, err = r.HasChildren(name); err != nil {
		return nil, false, nil, err
	}
	underWay, err = r.UnderWay(name)
	return cluster, hasChildren, underWay, err
}
