package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-io/drover/pkg/operate/diagnose"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/status"
)

const (
	outputWide = "wide"
	outputName = "name"
)

// statusOptions are the flags of drover status.
type statusOptions struct {
	*inspectOptions
	everywhere, watch bool
	environ           []string
	// terminal returns the terminal that shows an output, nil if it is none.
	terminal func(out io.Writer) *terminal
	now      func() time.Time
}

// terminal is a terminal that shows the output of a command.
type terminal struct {
	// size returns columns and rows.
	size func() (width, height int)
	// resized gets a value after each change of the size, until stop is called.
	resized func() (changes <-chan os.Signal, stop func())
}

// terminalOf returns the terminal of a file.
func terminalOf(out io.Writer) *terminal {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &terminal{
		size: func() (int, int) {
			width, height, err := term.GetSize(int(file.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24 // a terminal that does not know its size
			}
			return width, height
		},
		resized: func() (<-chan os.Signal, func()) {
			changes := make(chan os.Signal, 1)
			signal.Notify(changes, syscall.SIGWINCH)
			return changes, func() { signal.Stop(changes) }
		},
	}
}

func newStatusCommand(environ []string, in *inspectOptions) *cobra.Command {
	in.formats = []string{outputTable, outputWide, outputJSON, outputYAML, outputName}
	o := &statusOptions{inspectOptions: in, environ: environ, terminal: terminalOf, now: time.Now}
	return o.command()
}

func (o *statusOptions) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [CLUSTER]",
		Short: "Show the state of clusters and machines, and what they wait for",
		Long: `Show the state of clusters and machines, and what they wait for.

Without a name, the command prints a line for each cluster of the namespace. With a name, it prints
the cluster with its pools and machines. For a cluster that does not work, it also prints the first
broken link and what to do, as drover diagnose does.

A cluster is Waiting, Ready, Failed, Paused or Deleting. A machine is Creating, Joining, Running,
Unhealthy, Failed or Deleting. MACHINES shows how many machines run, and how many the pools request.

With --watch, the command continues until Ctrl-C, or until the named cluster is gone. On a terminal,
it draws over its former output. Elsewhere, it prints a line for each change. It continues after an
interruption of the connection. Colours appear only on a terminal, and not if NO_COLOR is set.

Exit codes: 0 the state is printed, whatever it is; 1 an error, or the cluster does not exist. drover
diagnose has an exit code for scripts.

The command reads with your permissions and writes nothing. It does not count machines that you may
not list.

-o json and -o yaml print the types Fleet and Tree of package pkg/operate/status.`,
		Example: `  # all clusters of a namespace
  drover status

  # all clusters of all namespaces, with more columns
  drover status -A -o wide

  # follow the creation of cluster demo
  drover status demo --watch

  # print the clusters that are not ready, for a script
  drover status -A -o json | jq -r '.items[] | select(.state != "Ready") | .namespace + "/" + .name'`,
		Args:              mayTake("CLUSTER"),
		ValidArgsFunction: completing(o.environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, args []string) error { return o.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if o.watch {
				return o.follow(cmd, name)
			}
			return o.show(cmd, name)
		},
	}
	addManagement(cmd, o.environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	o.addNamespace(cmd, o.environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.everywhere, "all-namespaces", "A", false,
		"show the clusters of all namespaces, in spite of --namespace")
	f.BoolVarP(&o.watch, "watch", "w", false, "continue to show changes until Ctrl-C")
	return cmd
}

// check refuses flags that contradict each other.
func (o *statusOptions) check(cmd *cobra.Command, args []string) error {
	if err := o.complete(cmd, o.environ); err != nil {
		return err
	}
	switch {
	case o.everywhere && len(args) > 0:
		return errors.New("a cluster has one namespace: use --namespace instead of --all-namespaces, or omit the name")
	case o.watch && o.output != outputTable && o.output != outputWide:
		return fmt.Errorf("--watch prints text for people: use --output=%s or %s", outputTable, outputWide)
	}
	return nil
}

// statuses returns what reads the chosen clusters.
func (o *statusOptions) statuses(name string) (*inspect.Statuses, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	namespace := ""
	if !o.everywhere {
		namespace = o.inNamespace()
	}
	return inspect.NewStatuses(inspect.StatusOptions{Config: config, Version: Version, Namespace: namespace,
		Name: name})
}

// show prints the state once.
func (o *statusOptions) show(cmd *cobra.Command, name string) error {
	s, err := o.statuses(name)
	if err != nil {
		return err
	}
	rows, err := s.Read(cmd.Context())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	form := o.form(o.terminal(out))
	if name != "" {
		tree := o.tree(&rows, o.diagnosis(cmd.Context(), &rows.Clusters[0]))
		if o.output == outputName {
			return printNames(out, rows.Clusters, tree.Groups)
		}
		return o.print(out, tree, func(w io.Writer) { printLines(w, tree.Lines(form)) })
	}
	fleet := o.fleet(&rows)
	if o.output == outputName {
		return printNames(out, rows.Clusters, nil)
	}
	if len(fleet.Items) == 0 && (o.output == outputTable || o.output == outputWide) {
		cmd.PrintErrln(o.none())
	}
	return o.print(out, fleet, func(w io.Writer) { printLines(w, fleet.Lines(form)) })
}

// none says that there are no clusters.
func (o *statusOptions) none() string {
	if o.everywhere {
		return "There are no clusters"
	}
	return "There are no clusters in namespace " + o.inNamespace() + "; -A shows all namespaces"
}

// form returns how to print on a terminal, which may be nil. Only a watch cuts lines, because it draws over them.
func (o *statusOptions) form(shown *terminal) status.Form {
	noColour, _ := variable(o.environ, "NO_COLOR")
	kind, _ := variable(o.environ, "TERM")
	return status.Form{Now: o.now(), Wide: o.output == outputWide, Namespaces: o.everywhere,
		Colour: shown != nil && noColour == "" && kind != "dumb"}
}

func (*statusOptions) fleet(rows *inspect.Rows) status.Fleet {
	fleet := status.FleetOf(rows.Clusters, rows.Machines, rows.MachinesUnread == "")
	if rows.MachinesUnread != "" {
		fleet.Notes = append(fleet.Notes, rows.MachinesUnread)
	}
	return fleet
}

func (*statusOptions) tree(rows *inspect.Rows, report *diagnose.Report) status.Tree {
	tree := status.TreeOf(rows.Clusters[0], rows.Machines, report)
	if rows.MachinesUnread != "" {
		tree.Notes = append(tree.Notes, rows.MachinesUnread)
	}
	return tree
}

// diagnosis diagnoses a cluster that does not work. A problem of the diagnosis is a note, because the state is known
// without it.
func (o *statusOptions) diagnosis(ctx context.Context, cluster *status.Cluster) *diagnose.Report {
	if cluster.State == status.Ready {
		return nil
	}
	r, err := o.reader(ctx, cluster.Namespace)
	if err != nil {
		return &diagnose.Report{Notes: []string{"cannot diagnose: " + err.Error()}}
	}
	defer r.Close()
	report, err := r.Diagnose(ctx, cluster.Name)
	if err != nil {
		return &diagnose.Report{Notes: []string{"cannot diagnose: " + err.Error()}}
	}
	return &report
}

func printLines(w io.Writer, lines []string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(w, line)
	}
}

// printNames prints names as kubectl does.
func printNames(out io.Writer, clusters []status.Cluster, groups []status.Group) error {
	for i := range clusters {
		if _, err := fmt.Fprintln(out, "cluster.provisioning.cattle.io/"+clusters[i].Name); err != nil {
			return err
		}
	}
	for i := range groups {
		for j := range groups[i].Machines {
			if _, err := fmt.Fprintln(out, "machine.cluster.x-k8s.io/"+groups[i].Machines[j].Name); err != nil {
				return err
			}
		}
	}
	return nil
}
