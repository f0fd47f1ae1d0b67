package clusterproxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// answerFor is how long an answer of the management cluster is cached, at most.
const answerFor = 10 * time.Second

// unknownTimes is how many times Recheck a long-running request continues while its permission is unknown.
const unknownTimes = 5

// answersFor is how long answers of the management cluster are cached. A check must not rely on an answer from before
// the permission was lost for too long.
func (o Options) answersFor() time.Duration { return min(answerFor, o.Recheck/6) }

// untilCheck is the time until the next check of a long-running request. Together with the age of a cached answer it is
// at most Recheck. It is random, because many requests may start at the same time.
func (o Options) untilCheck() time.Duration {
	most := o.Recheck - o.answersFor()
	return most/2 + rand.N(most/2+1) //nolint:gosec // it spreads load
}

// ended is why Drover ended a long-running request.
type ended struct {
	// answer is for a client that has no answer yet.
	answer *refusal
	// reason is for the audit.
	reason string
}

// Error makes it the cause of a context's end.
func (e *ended) Error() string { return e.reason }

// guard checks the caller and the permissions of a long-running request again while it runs. Between checks it has only
// a timer.
type guard struct {
	e   *exchange
	ctx context.Context
	end context.CancelCauseFunc
	// known is when the last check had a result.
	known time.Time

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// guard starts the checks of a request. The context is the request's, which end ends. stop ends the checks.
func (e *exchange) guard(ctx context.Context, end context.CancelCauseFunc) (stop func()) {
	g := &guard{e: e, ctx: ctx, end: end, known: time.Now()}
	g.mu.Lock() // the timer may end before it is assigned
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(e.proxy.options.untilCheck(), g.check)
	return g.stop
}

// stop ends the checks. Afterwards the guard does not use the connection.
func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	g.timer.Stop()
}

// check checks the request once, and then either ends it or sets the timer again.
func (g *guard) check() {
	o := g.e.proxy.options
	err := g.e.recheck(g.ctx)
	gone := revocation(err)
	switch unknown := time.Since(g.known); {
	case err == nil:
		g.known = time.Now()
	case gone == nil && unknown >= unknownTimes*o.Recheck:
		gone = &ended{
			answer: unavailable("this server cannot check at the moment whether the request is still allowed", 1),
			reason: "the permission is unknown for " + unknown.Round(time.Second).String(),
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over || g.ctx.Err() != nil:
	case gone == nil:
		g.timer.Reset(o.untilCheck())
	default:
		g.over = true
		// A client that does not read blocks the writer, which cannot see the end of the context.
		control := http.NewResponseController(g.e.w)
		_ = control.SetWriteDeadline(time.Now().Add(lastWords))
		_ = control.SetReadDeadline(time.Now().Add(lastWords))
		g.end(gone)
	}
}

// revocation converts the error of a check to why the request ends. It returns nil if the result is unknown: if the
// management cluster does not answer, or if too many other checks run.
func revocation(err error) *ended {
	var no *refusal
	switch {
	case errors.Is(err, errUnauthenticated):
		return &ended{unauthorized(), "revoked: the credential is no longer valid"}
	case errors.As(err, &no) && no.code != http.StatusTooManyRequests && no.code < http.StatusInternalServerError:
		return &ended{no, "revoked: " + no.message}
	}
	return nil
}

// recheck authenticates and authorizes the request again, as at its start. The cluster decides by the identity that it
// got then, so that identity must still be the caller's.
func (e *exchange) recheck(ctx context.Context) error {
	again := e.r.WithContext(ctx)
	again.Body = http.NoBody
	caller, err := e.proxy.authenticator.authenticate(again)
	if err != nil {
		return err
	}
	leave, err := e.proxy.checks.enter(ctx, visitor{namespace: tenantOf(caller.Name), caller: caller.Name}, queueFor)
	if err != nil {
		return err
	}
	defer leave()
	decided, err := e.proxy.allowed(ctx, caller, e)
	if err == nil && !decided.As.includes(e.what.As) {
		return forbidden("the user or the groups have changed since the request began")
	}
	return err
}

// includes reports whether an identity is the same user in at least the same groups.
func (i Identity) includes(before Identity) bool {
	return i.Name == before.Name && i.UID == before.UID && !slices.ContainsFunc(before.Groups, func(group string) bool {
		return !slices.Contains(i.Groups, group)
	})
}
