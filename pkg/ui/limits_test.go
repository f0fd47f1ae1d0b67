package ui

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// One user who does not read answers leaves room for others.
func TestLimits_OfPassedRequestsAreForEachCaller(t *testing.T) {
	l := newLimits(time.Now)
	enter := func(user string) func() {
		t.Helper()
		done, err := l.pass(user)
		check(t, err)
		return done
	}
	first := enter("ann")
	for range passedAtOnce - 1 {
		enter("ann")
	}
	if _, err := l.pass("ann"); failureOf(err).status != http.StatusTooManyRequests {
		t.Errorf("got %v", err)
	}
	first()
	enter("ann")
	for i := range passedOfAll - passedAtOnce {
		enter(fmt.Sprint("bob", i))
	}
	if _, err := l.pass("eve"); failureOf(err).status != http.StatusTooManyRequests {
		t.Errorf("got %v", err)
	}
}

// A browser that leaves a page ends its requests. The log of the server is not about that.
func TestEndpoints_DoNotLogABrowserThatLeaves(t *testing.T) {
	opts, log := options(newFakeAPI(t).serve(t)), bytes.Buffer{}
	opts.Log = &logrus.Logger{Out: &log, Formatter: &logrus.TextFormatter{}, Level: logrus.DebugLevel}
	p := newPage(t, opts)
	p.signIn(token)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := p.do(p.request(http.MethodGet, "/ui/api/v1/namespaces", "").WithContext(ctx)); got.Code == http.StatusOK {
		t.Errorf("got %d", got.Code)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// Sign-ins from one address do not keep users at other addresses out.
func TestLimits_OfSignInsAreForEachAddress(t *testing.T) {
	now := time.Now()
	l := newLimits(func() time.Time { return now })
	for i := range signInsBurst + 10 {
		err := l.signIn(fmt.Sprintf("[2001:db8::%x]:%d", i, 1000+i))
		if (err == nil) != (i < signInsBurst) {
			t.Fatalf("sign-in %d: %v", i, err)
		}
	}
	for _, other := range []string{"192.0.2.1:1000", "[::ffff:192.0.2.2]:1000", "[2001:db8:1::1]:1000", "pipe"} {
		if err := l.signIn(other); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}
