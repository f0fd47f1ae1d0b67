package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// operationOptions are the flags of the commands that request operations, in addition to inspectOptions.
type operationOptions struct {
	*inspectOptions
	dryRun, wait bool
	timeout      time.Duration
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

func (o *operationOptions) addFlags(cmd *cobra.Command, environ []string) {
	o.inspectOptions.addFlags(cmd, environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would happen, and request nothing")
	f.BoolVar(&o.wait, "wait", false, "return after the operation has ended")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time for which --wait waits; 0 means forever")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
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

// controlPlaneGetter and coreGetter read the objects that a request depends on. clusterPatcher does the rest.
type controlPlaneGetter interface {
	Get(namespace, name string, options metav1.GetOptions) (*rkev1.RKEControlPlane, error)
}
type coreGetter interface {
	Get(namespace, name string, options metav1.GetOptions) (*clusterv1.Cluster, error)
}

// operationAPI is the part of the management cluster that requests for operations need.
type operationAPI struct {
	clusters      clusterPatcher
	controlPlanes controlPlaneGetter
	cores         coreGetter
}

// api reaches the management cluster. The returned function stops the clients.
func (o *operationOptions) api() (operationAPI, func(), error) {
	config, err := o.restConfig()
	if err != nil {
		return operationAPI{}, nil, err
	}
	c, err := clients.New(config, clients.Options{Version: Version, WithoutDynamic: true})
	if err != nil {
		return operationAPI{}, nil, err
	}
	return operationAPI{c.Provisioning.Cluster(), c.RKE.RKEControlPlane(), c.CAPI.Cluster()}, c.Stop, nil
}

// read reads a cluster. isRefusal means that a repeated read gives the same error.
func (a operationAPI) read(namespace, name string) (s scene, isRefusal bool, err error) {
	if s.cluster, err = a.clusters.Get(namespace, name, metav1.GetOptions{}); err != nil {
		isRefusal, err = inspect.UnreadCluster(err, namespace, name)
		return s, isRefusal, err
	}
	s.controlPlane, err = a.controlPlanes.Get(namespace, name, metav1.GetOptions{})
	switch {
	case inspect.IsAbsent(err, inspect.ControlPlaneResource(), name):
		s.controlPlane = nil
		return s, false, nil
	case err != nil:
		isRefusal = apierrors.IsForbidden(err) && inspect.IsAbout(err, inspect.ControlPlaneResource(), name)
		return s, isRefusal, fmt.Errorf("read RKEControlPlane %s/%s: %w", namespace, name, err)
	}
	return s, false, nil
}

// paused reports whether a user has paused the cluster. It returns false if the user may not read the CAPI Cluster.
func (a operationAPI) paused(s scene) bool {
	if s.controlPlane == nil {
		return false
	}
	if _, paused := s.controlPlane.Annotations[clusterv1.PausedAnnotation]; paused {
		return true
	}
	core, err := a.cores.Get(s.cluster.Namespace, s.cluster.Name, metav1.GetOptions{})
	return err == nil && core.Spec.Paused != nil && *core.Spec.Paused && core.Annotations[rkev1.PausedByOperationAnnotation] == ""
}

// survey reads everything that a request depends on.
func (a operationAPI) survey(namespace, name string) (scene, error) {
	s, _, err := a.read(namespace, name)
	if err == nil {
		s.paused = a.paused(s)
	}
	return s, err
}

// ask writes a request based on the current state of the cluster. It returns the order with the written wish.
func (a operationAPI) ask(ctx context.Context, namespace, name string, o order) (asked order, request inspect.Request, err error) {
	err = clients.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := meanwhile(ctx, func() (scene, error) { return a.survey(namespace, name) })
		if err != nil {
			return unaskedFor(ctx, err)
		}
		placed, notes, err := s.place(o)
		if err != nil {
			return err
		}
		patch, err := o.patch(s.cluster, placed)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return unaskedFor(ctx, ctx.Err())
		}
		asked, request = o, o.request(s, placed, notes)
		asked.wish = placed
		_, err = a.clusters.Patch(namespace, name, types.MergePatchType, patch)
		return s.unpatched(err)
	})
	return asked, request, err
}

// unaskedFor adds to an error that nothing was requested, if the user has ended the command.
func unaskedFor(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("nothing was asked for: %w", err)
}

// vague are errors that leave open whether the write happened.
var vague = []func(error) bool{apierrors.IsUnexpectedServerError, apierrors.IsTimeout, apierrors.IsServerTimeout, apierrors.IsInternalError}

// unpatched returns the error of a failed patch. If the error does not come from the API server, or the API server has
// lost its storage, the result is unknown.
func (s scene) unpatched(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status) && !slices.ContainsFunc(vague, func(is func(error) bool) bool { return is(err) }):
		return fmt.Errorf("ask on cluster %s: %w", s.name(), err)
	}
	return fmt.Errorf("ask on cluster %s: it may have been asked for, which %s shows: %w", s.name(), s.look(), err)
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

// run requests an operation, or reports its effect.
func (o *operationOptions) run(cmd *cobra.Command, name string, asks order) error {
	api, stop, err := o.api()
	if err != nil {
		return err
	}
	defer stop()
	if o.dryRun {
		return o.foretell(cmd, api, name, asks)
	}
	namespace := orDefault(o.namespace)
	asked, request, err := api.ask(cmd.Context(), namespace, name, asks)
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), request, func(w io.Writer) { printRequest(w, request) }); err != nil {
		return err
	}
	if !o.wait {
		cmd.PrintErrf("drover explain %s -n %s shows how it gets on\n", name, namespace)
		return nil
	}
	return o.await(cmd, api, name, asked)
}

// foretell reports the effect on machines.
func (o *operationOptions) foretell(cmd *cobra.Command, api operationAPI, name string, asks order) error {
	report, err := meanwhile(cmd.Context(), func() (preview.Report, error) {
		s, err := api.survey(orDefault(o.namespace), name)
		if err != nil {
			return preview.Report{}, err
		}
		return o.foresee(cmd.Context(), s, asks)
	})
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), report, func(w io.Writer) { printReport(w, report) }); err != nil {
		return err
	}
	if problem := report.OperationProblem(fieldPath(asks.kind)); problem != "" {
		return fmt.Errorf("the %s would fail: %s", asks.kind.Title, printable(problem))
	}
	return verdict(cmd, report)
}

// foresee returns the effect of a request on machines, as drover preview shows it for the same edit.
func (o *operationOptions) foresee(ctx context.Context, s scene, asks order) (preview.Report, error) {
	asked, _, err := s.place(asks)
	if err != nil {
		return preview.Report{}, err
	}
	edited, err := asks.edited(s.cluster, asked)
	if err != nil {
		return preview.Report{}, err
	}
	r, err := o.reader(ctx, s.cluster.Namespace)
	if err != nil {
		return preview.Report{}, err
	}
	defer r.Close()
	report, err := r.PreviewEdit(edited)
	if version := asks.kubernetesVersion; err == nil && version != "" && !r.KnowsVersion(version) {
		report.Warnings = append(report.Warnings, preview.Warning{
			Field: fieldVersion, Message: "the release data do not know " + version + ": is there such a release?",
		})
	}
	return report, err
}

func printRequest(w io.Writer, r inspect.Request) {
	row(w, "Cluster:", r.Cluster)
	row(w, "Asked for:", r.Operation)
	row(w, "Field:", r.Field+", generation "+strconv.FormatInt(r.Generation, 10))
	if r.Snapshot != "" {
		row(w, "Snapshot:", r.Snapshot)
	}
	if len(r.Services) > 0 {
		row(w, "Services:", strings.Join(r.Services, ", "))
	}
	if r.KubernetesVersion != "" {
		row(w, "Version:", "spec.kubernetesVersion is "+r.KubernetesVersion)
	}
	for _, note := range r.Notes {
		row(w, "Note:", note)
	}
}
