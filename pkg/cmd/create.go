package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/pkg/operate/apply"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/operate/status"
	"github.com/drover-io/drover/pkg/releases"
)

func newCreateCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{Use: "create", Short: "Create a cluster, or its manifest"}
	cmd.AddCommand(newCreateCluster(newEditOptions(environ, &inspectOptions{})))
	return cmd
}

// ofOneCluster are the flags that describe one cluster. The environment does not set them.
var ofOneCluster = []string{"apply", "cni", "credential", "driver", "filename", "hosts", "pool", "version"}

// createOptions are the flags of drover create cluster in addition to editOptions.
type createOptions struct {
	*editOptions
	cluster      edit.NewCluster
	pools        []string
	path         string
	hosts, apply bool
}

func newCreateCluster(e *editOptions) *cobra.Command {
	o := &createOptions{editOptions: e}
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Write the manifest of a cluster, and apply it with --apply",
		Long: `Write the manifest of a cluster to standard output, or to the new file of -f. With --apply, also
create the cluster.

The machines come from a node driver (--driver, --credential and --pool), or they are existing hosts
(--hosts). On a terminal, the command asks for missing values. Elsewhere, a missing value is an
error.

--pool is the name of a pool with its number of machines, its roles, and fields of the driver's
machine config. Roles are all, or some of etcd, controlplane and worker, joined by +. Repeat a field
to give a list.

The command checks the values as the server does. It checks fields of machine configs if it can read
the driver's schema in the management cluster.

With --apply, the command shows which machines it adds, and asks. Without a terminal, it needs
--yes. The API server checks all objects before the first write, and the command prints its errors
at their fields. It never changes an existing object. If the API server refuses a write, run the
same command again: machine configs that it has already created stay. For existing hosts, it prints
the command that registers a host as soon as the command exists. This command contains a secret
token.

With --wait, the command follows the cluster, as drover status --watch does, until it is ready. If
you stop the command, the server continues. A cluster that is Failed for a minute ends the wait.

The command uses your permissions. For --apply, you must be allowed to create the Cluster and the
machine configs, and to read what drover preview reads. The flags that describe the cluster do not
come from the environment.

Exit codes: 0 the manifest is written, and with --apply the cluster is created, and with --wait it
is ready; 1 an error.`,
		Example: `  # write a manifest for Git
  drover create cluster shop --driver amazonec2 --credential cattle-global-data:cc-aws01 \
    --version v1.36.3+rke2r1 --cni calico -f shop.yaml \
    --pool servers=3,roles=etcd+controlplane,instanceType=t3.xlarge \
    --pool workers=4,roles=worker,instanceType=m6i.2xlarge,securityGroup=a,securityGroup=b

  # create a cluster of existing hosts, and wait until it is ready
  drover create cluster edge --hosts --version v1.36.3+k3s1 --apply --wait`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.cluster.Name = args[0]
			return o.run(cmd)
		},
	}
	o.addCreateFlags(cmd)
	return cmd
}

func (o *createOptions) addCreateFlags(cmd *cobra.Command) {
	o.addFlags(cmd, o.environ)
	o.formats, o.output = []string{outputYAML}, outputYAML
	f := cmd.Flags()
	f.StringVar(&o.cluster.Driver, "driver", "", "`name` of the node driver of the pools, for example amazonec2")
	f.BoolVar(&o.hosts, "hosts", false, "the machines are existing hosts")
	f.StringVar(&o.cluster.Credential, "credential", "",
		"`name` of the Secret with the credential, or its namespace, a colon and its name")
	f.StringArrayVar(&o.pools, "pool", nil,
		"`pool`, for example workers=3,roles=worker,instanceType=t3.large; repeat it for more pools")
	f.StringVar(&o.cluster.Version, "version", "", "Kubernetes `version`, for example v1.36.3+rke2r1")
	f.StringVar(&o.cluster.CNI, "cni", "", "`network` of RKE2: "+anyOf(edit.Networks())+"; empty is its default")
	f.StringVarP(&o.path, "filename", "f", "-", "new `file` for the manifest; - is standard output")
	f.BoolVar(&o.apply, "apply", false, "create the cluster")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask before the cluster is created")
	o.addWait(cmd, "return after the cluster is ready")
	cmd.MarkFlagsMutuallyExclusive("driver", "hosts")
	cmd.MarkFlagsMutuallyExclusive("hosts", "pool")
	cmd.MarkFlagsMutuallyExclusive("hosts", "credential")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if o.wait && !o.apply {
			return errors.New("--wait has no effect without --apply")
		}
		return o.complete(cmd, withoutConsent(o.environ, ofOneCluster...))
	}
	_ = cmd.RegisterFlagCompletionFunc("cni",
		cobra.FixedCompletions(edit.Networks(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("driver", completing(o.environ, o.driverNames))
	_ = cmd.RegisterFlagCompletionFunc("version", completing(o.environ, anyVersion))
}

func (o *createOptions) driverNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return o.suggest(cmd, (*inspect.Reader).Drivers)
}

// anyVersion completes the beginning of a version of either distribution.
func anyVersion(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	facts, err := releases.Embedded()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return edit.Offered("", facts), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// run takes a new cluster to its end: it writes the manifest, and with --apply it asks, creates and waits.
func (o *createOptions) run(cmd *cobra.Command) error {
	if err := o.fill(cmd); err != nil {
		return err
	}
	o.cluster.Namespace = o.inNamespace()
	objects, err := o.objects(cmd)
	if err != nil {
		return err
	}
	manifest, err := edit.Manifest(objects)
	if err != nil {
		return err
	}
	if err := o.write(cmd.OutOrStdout(), manifest); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if !o.apply {
		return nil
	}
	return o.create(cmd, objects, manifest)
}

// write writes the manifest. It never changes an existing file. If the file has the manifest, an earlier attempt of the
// same command has written it.
func (o *createOptions) write(out io.Writer, manifest []byte) error {
	if o.path == "-" {
		_, err := out.Write(manifest)
		return err
	}
	file, err := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if o.hasWritten(manifest) {
			return nil
		}
		return fmt.Errorf("%s exists; choose another name, or remove the file", o.path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(manifest)
	return errors.Join(err, file.Close())
}

func (o *createOptions) hasWritten(manifest []byte) bool {
	about, err := os.Stat(o.path)
	if err != nil || !about.Mode().IsRegular() || about.Size() != int64(len(manifest)) {
		return false
	}
	found, err := os.ReadFile(o.path)
	return err == nil && bytes.Equal(found, manifest)
}

// missing is a value that the command line lacks.
type missing struct {
	flag, question string
	isMissing      func() bool
	set            func(answer string)
	// optional: the value may stay empty.
	optional bool
}

func (o *createOptions) questions() []missing {
	c := &o.cluster
	return []missing{
		{"--driver or --hosts", "Node driver, or hosts for existing hosts: ",
			func() bool { return c.Driver == "" && !o.hosts }, func(answer string) {
				if o.hosts = answer == "hosts"; !o.hosts {
					c.Driver = answer
				}
			}, false},
		{"--credential", "Secret with the credential, empty for none: ",
			func() bool { return c.Driver != "" && c.Credential == "" }, func(answer string) {
				c.Credential = answer
			}, true},
		{"--version", "Kubernetes version, for example v1.36.3+rke2r1: ",
			func() bool { return c.Version == "" }, func(answer string) { c.Version = answer }, false},
		{"--pool", "Pool, for example all=3,roles=all,size=large: ",
			func() bool { return c.Driver != "" && len(o.pools) == 0 }, func(answer string) {
				o.pools = []string{answer}
			}, false},
	}
}

// fill asks for missing values, and reads the pools.
func (o *createOptions) fill(cmd *cobra.Command) error {
	var lacks []string
	for _, one := range o.questions() {
		switch {
		case !one.isMissing():
		case !o.isTerminal(cmd.InOrStdin()) && one.optional:
		case !o.isTerminal(cmd.InOrStdin()):
			lacks = append(lacks, one.flag)
		default:
			cmd.PrintErr(one.question)
			answer, err := readLine(cmd.Context(), cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			one.set(answer)
			if answer == "" && !one.optional {
				lacks = append(lacks, one.flag)
			}
		}
	}
	if len(lacks) > 0 {
		return seeHelp(cmd, errors.New("values are missing: "+strings.Join(lacks, ", ")))
	}
	for _, text := range o.pools {
		pool, err := edit.ParsePool(text)
		if err != nil {
			return fmt.Errorf("--pool: %w", err)
		}
		o.cluster.Pools = append(o.cluster.Pools, pool)
	}
	return nil
}

// objects returns the objects of the manifest. Without the management cluster, it cannot check machine configs, which
// is an error only for --apply.
func (o *createOptions) objects(cmd *cobra.Command) ([]*unstructured.Unstructured, error) {
	facts, err := o.releases(cmd.Context())
	if err != nil {
		return nil, err
	}
	var schema *apiextv1.JSONSchemaProps
	if o.cluster.Driver != "" {
		schema, err = meanwhile(cmd.Context(), func() (*apiextv1.JSONSchemaProps, error) {
			return o.schema(cmd.Context())
		})
		if unknown, ok := errors.AsType[unknownDriverError](err); ok {
			return nil, unknown
		}
		if err != nil && o.apply {
			return nil, err
		}
		if err != nil {
			cmd.PrintErrf("Note: the fields of machine configs are not checked: %v\n", err)
		}
	}
	objects, wrong := o.cluster.Objects(schema, facts)
	return objects, o.inFlags(wrong)
}

// inFlags names the flags whose values are wrong.
func (o *createOptions) inFlags(wrong field.ErrorList) error {
	errs := make([]error, 0, len(wrong))
	for _, one := range wrong {
		first, _, _ := strings.Cut(one.Field, ".")
		named := "--" + first
		index, isPool := strings.CutPrefix(first, "pools[")
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		switch {
		case isPool && err == nil && i < len(o.cluster.Pools):
			named = "--pool " + o.cluster.Pools[i].Name
		case first == "pools":
			named = "--pool"
		case first == "name":
			named = "NAME"
		case first == "spec":
			named = one.Field
		}
		errs = append(errs, errors.New(named+": "+edit.MessageOf(one)))
	}
	return errors.Join(errs...)
}

// unknownDriverError says that the management cluster has no such driver.
type unknownDriverError string

// Error implements error.
func (e unknownDriverError) Error() string { return string(e) }

func (o *createOptions) schema(ctx context.Context) (*apiextv1.JSONSchemaProps, error) {
	r, err := o.plainReader(ctx, o.cluster.Namespace)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	driver := o.cluster.Driver
	spec, err := r.DriverSchema(driver)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		text := fmt.Sprintf("--driver: there is no driver %s, or it is not installed yet", driver)
		if known, err := r.Drivers(); err == nil {
			text += "; the active drivers are " + strings.Join(known, ", ")
		}
		return nil, unknownDriverError(text)
	}
	return edit.Schema(driver, spec), nil
}

// create shows the machines that are added, asks, and creates the cluster.
func (o *createOptions) create(cmd *cobra.Command, objects []*unstructured.Unstructured, manifest []byte) error {
	ctx := cmd.Context()
	report, err := meanwhile(ctx, func() (preview.Report, error) { return o.preview(ctx, manifest) })
	if err != nil {
		return err
	}
	shown := &inspectOptions{output: outputTable}
	if err := shown.print(cmd.ErrOrStderr(), report, func(w io.Writer) { printReport(w, report) }); err != nil {
		return err
	}
	if !report.New {
		return fmt.Errorf("cluster %s exists, and nothing was written; drover preview and kubectl apply change it",
			report.Cluster)
	}
	if err := o.agree(cmd, "Create cluster "+report.Cluster+"? [y/N] ", "y", "yes"); err != nil {
		return err
	}
	w, err := o.applier()
	if err == nil {
		err = w.Create(ctx, objects)
	}
	if partial, ok := errors.AsType[*apply.PartialError](err); ok {
		return fmt.Errorf("%w; run the same command again to complete the cluster", partial)
	}
	if err != nil {
		return err
	}
	cmd.PrintErrf("Cluster %s is created\n", report.Cluster)
	if o.hosts {
		if err := o.printRegistration(cmd); err != nil {
			return err
		}
	}
	if o.wait {
		return o.await(cmd, o.cluster.Name, status.Goal{Generation: 1})
	}
	cmd.PrintErrf("drover status %s -n %s --watch follows it\n", o.cluster.Name, o.cluster.Namespace)
	return nil
}

func (o *createOptions) preview(ctx context.Context, manifest []byte) (preview.Report, error) {
	file, err := inspect.ParseFile(manifest)
	if err != nil {
		return preview.Report{}, err
	}
	r, err := o.reader(ctx, o.cluster.Namespace)
	if err != nil {
		return preview.Report{}, err
	}
	defer r.Close()
	return r.Preview(file)
}

// registrationPatience is how long the command of a new cluster may take to exist.
const registrationPatience = time.Minute

// printRegistration prints the command that registers a host. The cluster is created, so a command that does not exist
// in time, or that the user may not read, is no error.
func (o *createOptions) printRegistration(cmd *cobra.Command) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), registrationPatience)
	defer cancel()
	why := ""
	for ctx.Err() == nil {
		command, err := meanwhile(ctx, func() (string, error) { return o.registration(ctx) })
		switch {
		case err == nil && command != "":
			return o.printCommand(cmd, command)
		case err == nil:
			why = "does not exist yet"
		case ctx.Err() == nil:
			why = "cannot be read: " + err.Error()
		}
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			break
		}
		pause(ctx, operationInterval)
	}
	if cmd.Context().Err() != nil {
		return context.Cause(cmd.Context())
	}
	cmd.PrintErrln("The registration command " + why + "; docs/hosts.md shows how to read it")
	return nil
}

func (o *createOptions) printCommand(cmd *cobra.Command, command string) error {
	cmd.PrintErrln("Run this command as root on each host, with its roles. It contains a secret token.")
	out := cmd.OutOrStdout()
	if o.path == "-" { // standard output is the manifest
		out = cmd.ErrOrStderr()
	}
	_, err := fmt.Fprintln(out, printable(command)+" --etcd --controlplane --worker")
	return err
}

func (o *createOptions) registration(ctx context.Context) (string, error) {
	r, err := o.plainReader(ctx, o.cluster.Namespace)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return r.RegistrationCommand(o.cluster.Name)
}
