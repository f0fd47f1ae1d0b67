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
	// operationInterval is how often --wait looks.
	operationInterval = 2 * time.Second
	// refusedCredentials is how often in a row a credential may be refused before nobody looks any more: one that has expired stays so.
	// An API server that begins to run may refuse good ones, too.
	refusedCredentials = int(time.Minute / operationInterval)
)

// sighting is what a look at a request has found.
type sighting struct {
	line string
	// begun: it is the operation that was started last. ended: there is nothing to wait for any more, with err unless what was asked for was done.
	begun, ended bool
	err          error
	// away is why nothing was seen, which may be otherwise soon.
	away error
}

// vigil is who waits for a request.
type vigil struct {
	order           order
	namespace, name string
	timeout         time.Duration
	// last is what was seen last, nil while nothing was.
	last *sighting
	// refused counts how often in a row the credential was refused.
	refused int
	// say tells the user something.
	say  func(line string)
	told string
}

// await returns when a request has ended. What it waits for is told when that changes.
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

// take tells what was seen, and whether that is the end.
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

// follow looks how a request gets on. It does not end because the API server is away for a while.
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

// unended is what is said of an operation that nobody waits for any more.
func (v *vigil) unended(why error) error {
	begun := v.last == nil || v.last.begun // who has seen nothing does not say that nothing has begun
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
