package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/operation"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// operationOptions are the flags of the commands that request operations, in addition to inspectOptions.
type operationOptions struct {
	*inspectOptions
	dryRun, wait bool
	timeout      time.Duration
	// review refuses a request that would fail, and asks the user. Nil does neither. notes are those of the request.
	review func(cmd *cobra.Command, s scene, notes []string, asks *order) error
}

// Parts of the help of all commands that request operations.
const (
	helpOfAsking = `The command records the request on the Cluster, with a generation that no earlier request had. One
operation runs at a time, and a request waits for its turn. The command refuses a request while an
operation of the same kind runs.

With --wait, the command follows the operation to its end and prints each step. If you stop the
command, the operation continues. With --dry-run, the command only shows what would happen to which
machines, as drover preview does.

The command uses your permissions. You must be allowed to get the Cluster and its RKEControlPlane,
and to patch the Cluster.

To show what would happen, the command uses the settings that the server has published in namespace
drover-system. Flags such as --system-default-registry, or DROVER_… in the environment, override
them.

Exit codes: 0 the operation is requested, and with --wait it has succeeded; 1 an error. With
--wait, 1 also means that the operation failed, was canceled, gave way to another request, or has
not ended within --timeout.

Exit codes with --dry-run: 0 no machine would change; 1 an error, or the operation would fail, and
the report has the cause in operations; 2 machines would change; 3 some would be replaced.

-o json and -o yaml print the type Request of package pkg/operate/inspect. With --dry-run, they
print the type Report of package pkg/operate/preview.`
)

// fieldVersion is the field of a Cluster that --kubernetes-version sets.
const fieldVersion = "spec.kubernetesVersion"

// command completes a command that requests an operation. ask returns the request of its command line.
func (o *operationOptions) command(
	environ []string, cmd *cobra.Command, ask func(cmd *cobra.Command, args []string) (order, error),
) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args, cmd.ValidArgsFunction = takes("CLUSTER"), completing(environ, o.clusterNames)
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, withoutConsent(environ)) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		asks, err := ask(cmd, args)
		if err != nil {
			return err
		}
		return o.run(cmd, args[0], asks)
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would happen, and request nothing")
	f.BoolVar(&o.wait, "wait", false, "return after the operation has ended")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time for which --wait waits; 0 means forever")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	return cmd
}

// withoutParameters returns the request for an operation that needs only the cluster.
func withoutParameters(kind planner.OperationKind) func(*cobra.Command, []string) (order, error) {
	return func(*cobra.Command, []string) (order, error) { return order{Kind: kind}, nil }
}

// consents are the flags that the user must set for one cluster.
var consents = []string{"yes", "file", "restore-config", "print-spec", "kubernetes-version"}

// withoutConsent removes consents, and further flags, from the environment. The version in the environment may be meant
// for drover images.
func withoutConsent(environ []string, further ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		given := environment([]string{entry})
		return slices.ContainsFunc(slices.Concat(consents, further), func(flag string) bool {
			_, ok := given[flag]
			return ok
		})
	})
}

func (o *operationOptions) complete(cmd *cobra.Command, environ []string) error {
	if err := o.inspectOptions.complete(cmd, environ); err != nil {
		return err
	}
	switch {
	case o.timeout < 0:
		return fmt.Errorf("--timeout: %s is less than nothing; use 0 for ever", o.timeout)
	case o.timeout > 0 && !o.wait:
		return errors.New("--timeout: nothing is waited for without --wait")
	}
	return nil
}

// The names of package operation's types here.
type (
	order = operation.Order
	scene = operation.Scene
	wish  = operation.Wish
)

// place decides the content and the notes of a request. It names the flag that an error is about.
func place(s scene, o order) (wish, []string, error) {
	asked, notes, err := s.Place(o)
	return asked, notes, flagged(err)
}

// flagged names the flag that a Refusal is about.
func flagged(err error) error {
	refusal, ok := errors.AsType[*operation.Refusal](err)
	switch {
	case !ok:
		return err
	case refusal.Part == operation.OfVersion:
		return fmt.Errorf("--kubernetes-version: %w", err)
	case refusal.Part == operation.OfServices:
		return fmt.Errorf("--service: %w", err)
	}
	return err
}

// controlPlaneGetter reads control planes. clusterPatcher does the rest.
type controlPlaneGetter interface {
	Get(namespace, name string, options metav1.GetOptions) (*rkev1.RKEControlPlane, error)
}

// operationAPI is the part of the management cluster that requests for operations need.
type operationAPI struct {
	clusters      clusterPatcher
	controlPlanes controlPlaneGetter
}

// writer returns clients that can write.
func (o *inspectOptions) writer() (*clients.Clients, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	return clients.New(config, clients.Options{Version: Version, WithoutDynamic: true})
}

// read reads a cluster. isRefusal means that a repeated read gives the same error.
func (a operationAPI) read(namespace, name string) (s scene, isRefusal bool, err error) {
	if s.Cluster, err = a.clusters.Get(namespace, name, metav1.GetOptions{}); err != nil {
		isRefusal, err = inspect.UnreadCluster(err, namespace, name)
		return s, isRefusal, err
	}
	s.ControlPlane, err = a.controlPlanes.Get(namespace, name, metav1.GetOptions{})
	switch {
	case inspect.IsAbsent(err, inspect.ControlPlaneResource(), name):
		s.ControlPlane = nil
		return s, false, nil
	case err != nil:
		isRefusal = apierrors.IsForbidden(err) && inspect.IsAbout(err, inspect.ControlPlaneResource(), name)
		return s, isRefusal, fmt.Errorf("read RKEControlPlane %s/%s: %w", namespace, name, err)
	}
	return s, false, nil
}

// ask writes a request based on the current state of the cluster. It returns the order with the written wish.
func (a operationAPI) ask(ctx context.Context, namespace, name string, o order) (asked order, request inspect.Request,
	err error) {
	err = clients.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := a.look(ctx, namespace, name)
		if err != nil {
			return err
		}
		placed, notes, err := place(s, o)
		if err != nil {
			return err
		}
		patch, err := o.Patch(s.Cluster, placed)
		if err != nil {
			return err
		}
		asked, request = o, requestOf(s, o, placed, notes)
		asked.Wish = placed
		_, err = a.clusters.Patch(namespace, name, types.MergePatchType, patch)
		return unpatched(s, err)
	})
	return asked, request, err
}

// look reads a cluster for a request, until the context ends.
func (a operationAPI) look(ctx context.Context, namespace, name string) (scene, error) {
	s, err := meanwhile(ctx, func() (scene, error) {
		s, _, err := a.read(namespace, name)
		return s, err
	})
	return s, unaskedFor(ctx, err)
}

// unaskedFor adds to an error that nothing was requested, if the user has ended the command.
func unaskedFor(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("nothing was asked for: %w", err)
}

// unpatched returns the error of a failed patch. If the error does not come from the API server, or the API server has
// lost its storage, the result is unknown.
func unpatched(s scene, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError &&
		!apierrors.IsUnexpectedServerError(err):
		return fmt.Errorf("ask on cluster %s: %w", s.Name(), err)
	}
	return fmt.Errorf("ask on cluster %s: it may have been asked for, which %s shows: %w", s.Name(), s.Look(), err)
}

// meanwhile runs a function that cannot be stopped. It returns without the result when the context ends.
func meanwhile[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do()
		answers <- answer{value, err}
	}()
	select {
	case <-ctx.Done():
	case got := <-answers:
		if ctx.Err() == nil {
			return got.value, got.err
		}
	}
	var none T
	return none, ctx.Err()
}

// run takes a request to its end. It refuses what would fail, asks the user, writes the request, and waits.
func (o *operationOptions) run(cmd *cobra.Command, name string, asks order) error {
	c, err := o.writer()
	if err != nil {
		return err
	}
	defer c.Stop()
	api := operationAPI{c.Provisioning.Cluster(), c.RKE.RKEControlPlane()}
	ctx, namespace := cmd.Context(), o.inNamespace()
	s, err := api.look(ctx, namespace, name)
	if err != nil {
		return err
	}
	_, notes, err := place(s, asks)
	if err == nil && o.review != nil {
		err = o.review(cmd, s, notes, &asks)
	}
	switch {
	case err != nil:
		return unaskedFor(ctx, err)
	case o.dryRun:
		return o.foretell(cmd, s, asks)
	}
	asked, request, err := api.ask(ctx, namespace, name, asks)
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), request, func(w io.Writer) { printRequest(w, request) }); err != nil {
		return err
	}
	if o.wait {
		return o.await(cmd, api, name, asked)
	}
	cmd.PrintErrf("%s shows how it gets on\n", s.Look())
	return nil
}

// foretell reports the effect on machines.
func (o *operationOptions) foretell(cmd *cobra.Command, s scene, asks order) error {
	ctx := cmd.Context()
	report, err := meanwhile(ctx, func() (preview.Report, error) { return o.foresee(ctx, s, asks) })
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), report, func(w io.Writer) { printReport(w, report) }); err != nil {
		return err
	}
	if problem := report.OperationProblem(operation.FieldPath(asks.Kind)); problem != "" {
		return fmt.Errorf("the %s would fail: %s", asks.Kind.Title, printable(problem))
	}
	return verdict(cmd, report)
}

// foresee returns the effect of a request on machines, as drover preview shows it for the same edit.
func (o *operationOptions) foresee(ctx context.Context, s scene, asks order) (preview.Report, error) {
	r, err := o.reader(ctx, s.Cluster.Namespace)
	if err != nil {
		return preview.Report{}, err
	}
	defer r.Close()
	report, err := r.PreviewRequest(s, asks)
	return report, flagged(err)
}

// requestOf describes the request for the user.
func requestOf(s scene, o order, asked wish, notes []string) inspect.Request {
	return inspect.Request{
		Cluster: s.Name(), Operation: o.Kind.Record, Field: operation.FieldPath(o.Kind), Generation: asked.Generation,
		Snapshot: asked.Name, RestoreRKEConfig: string(asked.RestoreRKEConfig),
		Services: asked.Services, KubernetesVersion: o.KubernetesVersion, Notes: notes,
	}
}

func printRequest(w io.Writer, r inspect.Request) {
	rows := [][2]string{
		{"Cluster:", r.Cluster},
		{"Asked for:", r.Operation},
		{"Field:", r.Field + ", generation " + strconv.FormatInt(r.Generation, 10)},
		{"Snapshot:", r.Snapshot},
		{"Configuration:", r.RestoreRKEConfig},
		{"Services:", strings.Join(r.Services, ", ")},
	}
	if r.KubernetesVersion != "" {
		rows = append(rows, [2]string{"Version:", fieldVersion + " is " + r.KubernetesVersion})
	}
	for _, note := range r.Notes {
		rows = append(rows, [2]string{"Note:", note})
	}
	for _, line := range rows {
		if line[1] != "" {
			row(w, line[:]...)
		}
	}
}
