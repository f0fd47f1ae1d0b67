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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/inspect"
	"github.com/drover-io/drover/pkg/planner"
)

// operationOptions are the flags of the commands that ask for operations, beside those of looking.
type operationOptions struct {
	*inspectOptions
	dryRun, wait bool
	timeout      time.Duration
}

// operationInterval is how often --wait looks.
const operationInterval = 2 * time.Second

// Parts of the help of all commands that ask for operations.
const (
	helpOfAsking = `What is asked for is recorded on the Cluster, with a generation that no request had. One operation runs at a time: a request waits for its turn, and one of the
same kind is refused while it runs. With --wait the command follows it to its end, and tells each step; to end the command ends nothing else. --dry-run only says what would happen to
which machines, as drover preview does. It works with your rights: you need to be allowed to get the Cluster and its RKEControlPlane, and to patch the Cluster.

The settings of the server are those it has published in namespace drover-system; --system-default-registry and others, or DROVER_… in the
environment, come before them. They matter to --dry-run only.

Exit codes: 0 it was asked for, and with --wait it was done; 1 an error, or with --wait it failed, was cancelled, gave way to another request or has not ended within --timeout; 2 with
--dry-run, machines would be changed.

-o json and -o yaml print the type Request of package pkg/inspect, with --dry-run the type Report of package pkg/preview.`
)

func (o *operationOptions) addFlags(cmd *cobra.Command, environ []string) {
	o.inspectOptions.addFlags(cmd, environ)
	o.addOutput(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would happen, and ask for nothing")
	f.BoolVar(&o.wait, "wait", false, "return when it has ended")
	f.DurationVar(&o.timeout, "timeout", 0, "how long --wait waits; 0 is for ever")
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

// controlPlaneGetter and coreGetter are what asking needs beside clusterPatcher.
type controlPlaneGetter interface {
	Get(namespace, name string, options metav1.GetOptions) (*rkev1.RKEControlPlane, error)
}
type coreGetter interface {
	Get(namespace, name string, options metav1.GetOptions) (*clusterv1.Cluster, error)
}

// operationAPI is the management cluster to who asks for operations.
type operationAPI struct {
	clusters      clusterPatcher
	controlPlanes controlPlaneGetter
	cores         coreGetter
}

// api reaches the management cluster. What it returns second ends that.
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

// read looks at a cluster. isRefusal: it will say the same when it is asked again.
func (a operationAPI) read(namespace, name string) (s scene, isRefusal bool, err error) {
	if s.cluster, err = a.clusters.Get(namespace, name, metav1.GetOptions{}); err != nil {
		isRefusal, err = inspect.UnreadCluster(err, namespace, name)
		return s, isRefusal, err
	}
	s.controlPlane, err = a.controlPlanes.Get(namespace, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.controlPlane = nil
		return s, false, nil
	case err != nil:
		return s, apierrors.IsForbidden(err), fmt.Errorf("read RKEControlPlane %s/%s: %w", namespace, name, err)
	}
	return s, false, nil
}

// paused reports that somebody has paused the cluster. Who may not read that is told nothing of it.
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

// ask makes a request, of what the cluster is at then.
func (a operationAPI) ask(namespace, name string, o order) (asked wish, request inspect.Request, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := a.survey(namespace, name)
		if err != nil {
			return err
		}
		placed, notes, err := s.place(o)
		if err != nil {
			return err
		}
		patch, err := o.patch(s.cluster, placed)
		if err != nil {
			return err
		}
		asked, request = placed, o.request(s, placed, notes)
		if _, err = a.clusters.Patch(namespace, name, types.MergePatchType, patch); err != nil {
			return fmt.Errorf("ask on cluster %s: %w", s.name(), err)
		}
		return nil
	})
	return asked, request, err
}

// run asks for an operation, or says what would happen.
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
	asked, request, err := api.ask(namespace, name, asks)
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
	return o.await(cmd, api, name, asks.kind, asked)
}

// foretell says what would happen to machines.
func (o *operationOptions) foretell(cmd *cobra.Command, api operationAPI, name string, asks order) error {
	namespace := orDefault(o.namespace)
	s, err := api.survey(namespace, name)
	if err != nil {
		return err
	}
	asked, _, err := s.place(asks)
	if err != nil {
		return err
	}
	edited, err := asks.edited(s.cluster, asked)
	if err != nil {
		return err
	}
	r, err := o.reader(cmd.Context(), namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	report, err := r.PreviewEdit(edited)
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), report, func(w io.Writer) { printReport(w, report) }); err != nil {
		return err
	}
	return verdict(cmd, report)
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

// await returns when a request has ended. What it waits for is told when that changes.
func (o *operationOptions) await(cmd *cobra.Command, api operationAPI, name string, kind planner.OperationKind, asked wish) error {
	ctx, namespace := cmd.Context(), orDefault(o.namespace)
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		ctx = limited
	}
	ticker := time.NewTicker(operationInterval)
	defer ticker.Stop()
	told := ""
	for {
		line, ended, err := api.follow(namespace, name, kind, asked)
		if line != "" && line != told {
			cmd.PrintErrln(line)
			told = line
		}
		if ended {
			return err
		}
		select {
		case <-ctx.Done():
			return unended(ctx.Err(), kind, namespace, name, o.timeout)
		case <-ticker.C:
		}
	}
}

// follow looks how a request gets on. It does not end because the API server is away for a while.
func (a operationAPI) follow(namespace, name string, kind planner.OperationKind, asked wish) (line string, ended bool, err error) {
	s, isRefusal, err := a.read(namespace, name)
	switch {
	case isRefusal:
		return "", true, err
	case err != nil:
		return "cannot look, and tries again: " + err.Error(), false, nil //nolint:nilerr // it is told, and ends nothing
	}
	return s.follow(kind, asked)
}

// unended is what is said of an operation that nobody waits for any more.
func unended(why error, kind planner.OperationKind, namespace, name string, timeout time.Duration) error {
	was := "is not waited for any more"
	if errors.Is(why, context.DeadlineExceeded) {
		was = fmt.Sprintf("has not ended within %s", timeout)
	}
	return fmt.Errorf("the %s %s and goes on; drover explain %s -n %s shows how it gets on: %w", kind.Title, was, name, namespace, why)
}
