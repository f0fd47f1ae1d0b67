package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Exit codes of drover preview in addition to 0 and 1.
const (
	exitChanges  = 2
	exitReplaces = 3
)

// exitError ends the program with an exit code, without a message.
type exitError int

// Error implements error.
func (e exitError) Error() string { return "exit code " + strconv.Itoa(int(e)) }

func newPreviewCommand(environ []string, o *inspectOptions) *cobra.Command {
	path := ""
	cmd := &cobra.Command{
		Use:   "preview -f FILE",
		Short: "Show what an edit of a cluster would do to its machines",
		Long: `Show what applying a Cluster would do to each machine. The command runs the code of the server.

  None      nothing happens on the node
  InPlace   files change or commands run, and nothing restarts
  Restart   the distribution on the node restarts, perhaps in another version; with DRAIN, its pods
            leave first
  Replace   a new machine replaces this one
  Add       a machine is added
  Remove    a machine is removed

The command also shows the order of the changes, and the fields of the file that cause them. It
finds these fields by changing each one alone.

Requests for operations count, too. A snapshot is InPlace on the machines that take it. A rotation
or a restore is Restart on the machines that it stops. Operations come before the tiers.

The spec in the file counts as the whole new spec, as with kubectl replace. The file may omit
fields that the server fills in, and requests for operations. Machine configs of the pools in the
same file count, too. The command ignores other objects in the file.

If the file has no metadata.namespace, the command uses --namespace, else the namespace of the
kubeconfig's context, else default, as kubectl apply does.

Exit codes: 0 the edit changes nothing on machines; 1 an error, an invalid Cluster, or no
possible plan for some machine; 2 the edit changes, adds or removes machines; 3 it replaces some.

The command reads with your permissions and writes nothing.

The command uses the settings that the server has published in namespace drover-system. Flags such
as --system-default-registry, or DROVER_… in the environment, override them.

-o json and -o yaml print the type Report of package pkg/operate/preview.`,
		Example: `  # what would this edit do?
  drover preview -f cluster.yaml

  # apply the edit only if it replaces no machine
  drover preview -f cluster.yaml; case $? in 0|2) kubectl apply -f cluster.yaml ;; esac

  # which fields make machines restart?
  drover preview -f - -o json < cluster.yaml | jq '.fields[] | select(.class == "Restart")'`,
		Args: takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd, environ); err != nil {
				return err
			}
			if path == "" {
				return seeHelp(cmd, errors.New("FILE is missing; use -f FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runPreview(cmd, o, path) },
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	cmd.Flags().Lookup(
		"namespace").Usage = "`namespace` of the cluster, the same as in the file if the file names one (default " +
		"that of the kubeconfig's context)"
	cmd.Flags().StringVarP(&path, "filename", "f", "",
		"`file` with the edited Cluster, in YAML or JSON; - reads standard input")
	_ = cmd.MarkFlagRequired("filename")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

func runPreview(cmd *cobra.Command, o *inspectOptions, path string) error {
	data, err := readFile(path, cmd.InOrStdin())
	if err != nil {
		return err
	}
	file, err := inspect.ParseFile(data)
	if err != nil {
		return err
	}
	namespace, err := o.namespaceOf(file)
	if err != nil {
		return err
	}
	r, err := o.reader(cmd.Context(), namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	report, err := r.Preview(file)
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), report, func(w io.Writer) { printReport(w, report) }); err != nil {
		return err
	}
	return verdict(cmd, report)
}

// namespaceOf returns the namespace to which kubectl apply writes the file, so that the preview reads what the edit
// changes.
func (o *inspectOptions) namespaceOf(file inspect.File) (string, error) {
	named := file.Cluster.Namespace
	if named != "" && o.namespace != "" && named != o.namespace {
		return "", fmt.Errorf("the Cluster in the file is in namespace %s, not in %s; omit --namespace or correct it",
			named, o.namespace)
	}
	if namespace := cmp.Or(o.namespace, named); namespace != "" {
		return namespace, nil
	}
	if o.config != nil {
		return metav1.NamespaceDefault, nil
	}
	namespace, _, err := loader(o.kubeconfig, o.context).Namespace()
	if err != nil {
		return "", unknownManagement(err, o.kubeconfig, adviceOfUsers)
	}
	return namespace, nil
}

// verdict converts a report to an exit code.
func verdict(cmd *cobra.Command, report preview.Report) error {
	if n := report.Problems(); n > 0 {
		return fmt.Errorf("cannot make plans for %d machines; see their problems", n)
	}
	code := exitError(0)
	switch report.Result {
	case planner.ClassNone:
		return nil
	case planner.ClassReplace:
		code = exitReplaces
	default:
		code = exitChanges
	}
	cmd.SilenceErrors = true
	return code
}

func printReport(w io.Writer, r preview.Report) {
	row(w, "Cluster:", r.Cluster)
	row(w, "Result:", string(r.Result))
	if len(r.Machines) > 0 {
		heading(w, "Machines:")
		line(w, "NAME", "POOL", "ROLES", "CLASS", "DRAIN", "STAGE", "CAUSE")
		for _, m := range r.Machines {
			printMachine(w, m)
		}
	}
	printRest(w, r)
}

// printRest writes the parts after the machines.
func printRest(w io.Writer, r preview.Report) {
	if len(r.Order) > 0 {
		heading(w, "Order:")
		line(w, "STAGE", "GROUP", "PACE", "MACHINES")
		for i, stage := range r.Order {
			line(w, strconv.Itoa(i+1), stage.Name, stage.Pace, strings.Join(stage.Machines, ", "))
		}
	}
	if len(r.Fields) > 0 {
		heading(w, "Fields that differ:")
		for _, field := range r.Fields {
			line(w, field.Field, string(field.Class))
		}
	}
	printRestored(w, r.Restored)
	if len(r.Warnings) > 0 {
		heading(w, "Warnings:")
		for _, warning := range r.Warnings {
			line(w, warning.Field, warning.Message)
		}
	}
	if len(r.Notes) > 0 {
		heading(w, "Notes:")
		for _, note := range r.Notes {
			_, _ = fmt.Fprintln(w, "  "+note)
		}
	}
}

// printRestored lists the fields that a restore puts back.
func printRestored(w io.Writer, restored []preview.Restored) {
	if len(restored) == 0 {
		return
	}
	heading(w, "Fields that go back with the restore:")
	line(w, "FIELD", "NOW", "IN THE SNAPSHOT")
	for _, field := range restored {
		line(w, field.Field, printable(field.Old), printable(field.New))
	}
}

func printMachine(w io.Writer, m preview.Machine) {
	name, drain, stage := m.Name, "no", ""
	if name == "" {
		name = "(new)"
	}
	if m.Drained {
		drain = "yes"
	}
	if m.Stage > 0 {
		stage = strconv.Itoa(m.Stage)
	}
	line(w, name, m.Pool, m.Roles, string(m.Class), drain, stage, cause(m))
}

// cause describes why a machine changes, and what prevents the change.
func cause(m preview.Machine) string {
	var words []string
	if m.Pending {
		words = append(words, "pending without the edit")
	}
	for _, c := range m.Causes {
		if c.Class == m.Class || c.Class == planner.ClassNone {
			words = append(words, c.Field)
		} else {
			words = append(words, c.Field+" ("+string(c.Class)+")")
		}
	}
	text := strings.Join(words, ", ")
	if m.Held != "" {
		text += "; held: " + m.Held
	}
	if m.Problem != "" {
		text += "; PROBLEM: " + m.Problem
	}
	return strings.TrimPrefix(text, "; ")
}
