package crds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Client is the part of the API server that Ensure needs. client-go's typed client for definitions implements it.
type Client interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*apiextv1.CustomResourceDefinition, error)
	Create(ctx context.Context, crd *apiextv1.CustomResourceDefinition,
		opts metav1.CreateOptions) (*apiextv1.CustomResourceDefinition, error)
	Update(ctx context.Context, crd *apiextv1.CustomResourceDefinition,
		opts metav1.UpdateOptions) (*apiextv1.CustomResourceDefinition, error)
}

// Options change how Ensure works. The zero value is ready to use.
type Options struct {
	// HostOwned changes no definition, and a missing one is an error.
	HostOwned bool
	// Generation is the number that the definitions are marked with. Zero means the package's Generation.
	Generation int
	// Timeout is how long all definitions together may take until they are served. Zero means 60 seconds.
	Timeout time.Duration
}

// Result lists what Ensure did, by names of definitions, each list sorted.
type Result struct {
	// Created were missing.
	Created []string
	// Updated were Drover's and out of date.
	Updated []string
	// Unchanged were Drover's and current, or written by a newer Drover.
	Unchanged []string
	// Foreign have another owner and are used unchanged.
	Foreign []string
}

const (
	defaultTimeout = 60 * time.Second
	pollInterval   = 100 * time.Millisecond
	// parallel is how many definitions are handled at a time.
	parallel = 8
)

// Ensure installs the definitions and waits until all are established and serve the versions that the given ones store.
// Several replicas may call it at once. The error names every definition that is not served, with the API server's
// message.
func Ensure(ctx context.Context, client Client, wanted []*apiextv1.CustomResourceDefinition, opts Options) (Result,
	error) {
	if opts.Generation == 0 {
		opts.Generation = Generation
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()

	outcomes := make([]outcome, len(wanted))
	failures := make([]error, len(wanted))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, crd := range wanted {
		group.Go(func() error {
			outcomes[i], failures[i] = ensureOne(ctx, client, crd, opts)
			if failures[i] != nil {
				failures[i] = fmt.Errorf("ensure custom resource definition %s: %w", crd.Name, failures[i])
			}
			return nil
		})
	}
	_ = group.Wait() // the goroutines report through failures
	return summarise(wanted, outcomes), errors.Join(failures...)
}

type outcome string

const (
	outcomeCreated   outcome = "created"
	outcomeUpdated   outcome = "updated"
	outcomeUnchanged outcome = "unchanged"
	outcomeForeign   outcome = "foreign"
)

func summarise(wanted []*apiextv1.CustomResourceDefinition, outcomes []outcome) Result {
	var result Result
	for i, crd := range wanted {
		switch outcomes[i] {
		case outcomeCreated:
			result.Created = append(result.Created, crd.Name)
		case outcomeUpdated:
			result.Updated = append(result.Updated, crd.Name)
		case outcomeUnchanged:
			result.Unchanged = append(result.Unchanged, crd.Name)
		case outcomeForeign:
			result.Foreign = append(result.Foreign, crd.Name)
		}
	}
	for _, names := range [][]string{result.Created, result.Updated, result.Unchanged, result.Foreign} {
		slices.Sort(names)
	}
	return result
}

func ensureOne(ctx context.Context, client Client, wanted *apiextv1.CustomResourceDefinition, opts Options) (outcome,
	error) {
	done, err := write(ctx, client, wanted, opts)
	if err != nil {
		return done, err
	}
	return done, awaitEstablished(ctx, client, wanted)
}

// write creates or updates a definition. It retries a conflict, because another replica may do the same at the same
// time.
func write(ctx context.Context, client Client, wanted *apiextv1.CustomResourceDefinition, opts Options) (done outcome,
	err error) {
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		done, err = writeOnce(ctx, client, wanted, opts)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return err == nil, err
	})
	return done, err
}

func writeOnce(ctx context.Context, client Client, wanted *apiextv1.CustomResourceDefinition, opts Options) (outcome,
	error) {
	current, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if opts.HostOwned {
			return "", errors.New("it does not exist, and the server that embeds Drover must install it")
		}
		_, err := client.Create(ctx, marked(wanted, opts.Generation), metav1.CreateOptions{})
		return outcomeCreated, err
	}
	if err != nil {
		return "", err
	}
	if opts.HostOwned || current.Labels[rkev1.ManagedByLabel] != rkev1.ManagedByDrover {
		return outcomeForeign, nil
	}
	if generation, err := strconv.Atoi(current.Labels[rkev1.CRDVersionLabel]); err == nil &&
		generation > opts.Generation {
		return outcomeUnchanged, nil
	}
	updated, changed, err := merge(current, marked(wanted, opts.Generation))
	if err != nil || !changed {
		return outcomeUnchanged, err
	}
	_, err = client.Update(ctx, updated, metav1.UpdateOptions{})
	return outcomeUpdated, err
}

// awaitEstablished waits until the definition serves every version that the wanted one stores.
func awaitEstablished(ctx context.Context, client Client, wanted *apiextv1.CustomResourceDefinition) error {
	last := errors.New("the check did not start in time")
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		current, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
		if err != nil {
			if ctx.Err() == nil {
				last = err
			}
			return false, nil // the API server may be starting: the last error is returned at the deadline
		}
		last = established(current, wanted)
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}

// established returns why a definition cannot be used.
func established(current, wanted *apiextv1.CustomResourceDefinition) error {
	for _, version := range wanted.Spec.Versions {
		if version.Storage && !serves(current, version.Name) {
			return fmt.Errorf("it does not serve version %s; it belongs to %q", version.Name,
				current.Labels[rkev1.ManagedByLabel])
		}
	}
	var complaints []string
	for _, condition := range current.Status.Conditions {
		if condition.Type == apiextv1.Established && condition.Status == apiextv1.ConditionTrue {
			return nil
		}
		if condition.Status == apiextv1.ConditionFalse && condition.Message != "" {
			complaints = append(complaints, fmt.Sprintf("%s is false: %s", condition.Type, condition.Message))
		}
	}
	if len(complaints) == 0 {
		return errors.New("it is not established")
	}
	slices.Sort(complaints)
	return fmt.Errorf("it is not established: %s", strings.Join(complaints, "; "))
}

func serves(crd *apiextv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
}
