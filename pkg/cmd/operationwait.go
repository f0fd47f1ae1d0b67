package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// operationInterval is the polling interval of --wait.
	operationInterval = 2 * time.Second
	// refusedCredentials is how many times in a row a credential may be refused before --wait gives up. An expired
	// credential stays invalid, but a starting API server may refuse valid ones for a while.
	refusedCredentials = int(time.Minute / operationInterval)
)

// sighting is the result of one poll.
type sighting struct {
	line string
	// begun: the request is the last started operation. ended: there is nothing more to wait for. err is nil only if
	// the operation succeeded.
	begun, ended bool
	err          error
	// away is a temporary error that hides the state.
	away error
}

// vigil is the state of waiting for a request.
type vigil struct {
	order           order
	namespace, name string
	timeout         time.Duration
	// last is the last known sighting, nil before the first.
	last *sighting
	// refused counts consecutive refusals of the credential.
	refused int
	// say prints a line for the user.
	say  func(line string)
	told string
}

// await returns when a request has ended. It prints each change of what the request waits for.
func (o *operationOptions) await(cmd *cobra.Command, api operationAPI, name string, asked order) error {
	ctx := cmd.Context()
	if o.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		ctx = limited
	}
	v := &vigil{order: asked, namespace: orDefault(o.namespace), name: name, timeout: o.timeout, say: func(line string) { cmd.PrintErrln(line) }}
	ticker := time.NewTicker(operationInterval)
	defer ticker.Stop()
	for {
		seen, err := meanwhile(ctx, func() (sighting, error) { return api.follow(v.namespace, v.name, asked), nil })
		if err != nil {
			return v.unended(err)
		}
		if ended, err := v.take(seen); ended {
			return err
		}
		select {
		case <-ctx.Done():
			return v.unended(ctx.Err())
		case <-ticker.C:
		}
	}
}

// take prints a sighting and reports whether the wait is over.
func (v *vigil) take(seen sighting) (ended bool, err error) {
	line := seen.line
	switch {
	case apierrors.IsUnauthorized(seen.away):
		v.refused++
	default:
		v.refused = 0
	}
	if seen.away != nil {
		line = "cannot look, and tries again: " + seen.away.Error()
	} else {
		v.last = &seen
	}
	if v.refused >= refusedCredentials {
		return true, v.unended(seen.away)
	}
	if line = printable(line); line != "" && line != v.told {
		v.say(line)
		v.told = line
	}
	return seen.ended, seen.err
}

// follow polls the progress of a request. A temporary outage of the API server does not end the wait.
func (a operationAPI) follow(namespace, name string, o order) sighting {
	s, isRefusal, err := a.read(namespace, name)
	switch {
	case isRefusal:
		return sighting{ended: true, err: err}
	case err != nil:
		return sighting{away: err}
	}
	return s.follow(o)
}

// unended returns the error for an operation that has not ended when the wait is over.
func (v *vigil) unended(why error) error {
	begun := v.last == nil || v.last.begun // unknown without a sighting: do not claim that nothing has begun
	was, then := "is not waited for any more", " and goes on"
	switch {
	case apierrors.IsUnauthorized(why):
		was = "is not waited for any more, as the management cluster refuses the credential"
	case errors.Is(why, context.DeadlineExceeded) && begun:
		was = fmt.Sprintf("has not ended within %s", v.timeout)
	case errors.Is(why, context.DeadlineExceeded):
		was = fmt.Sprintf("has not begun within %s", v.timeout)
	}
	if !begun {
		then = ": its request still waits for its turn; to take it back, remove " + fieldPath(v.order.kind)
		if v.order.kubernetesVersion != "" {
			then += " and set spec.kubernetesVersion back"
		}
	}
	return fmt.Errorf("the %s %s%s; drover explain %s -n %s shows how it gets on: %w", v.order.kind.Title, was, then, v.name, v.namespace, why)
}
