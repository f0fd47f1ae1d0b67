package clusteragent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"pgregory.net/rapid"
)

func TestBackoff_DoublesUpToItsBound(t *testing.T) {
	var b backoff
	var longest, shortest []time.Duration
	for range 8 {
		again := b
		longest, shortest = append(longest, b.next(lastPause, 0)), append(shortest, again.next(lastPause, 1))
	}
	s := func(seconds ...float64) []time.Duration {
		out := make([]time.Duration, len(seconds))
		for i, each := range seconds {
			out[i] = time.Duration(each * float64(time.Second))
		}
		return out
	}
	if diff := cmp.Diff(s(0.5, 1, 2, 4, 8, 16, 30, 30), longest); diff != "" {
		t.Errorf("longest pauses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s(0.25, 0.5, 1, 2, 4, 8, 15, 15), shortest); diff != "" {
		t.Errorf("shortest pauses (-want +got):\n%s", diff)
	}
	b.reset()
	if got := b.next(lastPause, 0); got != firstPause {
		t.Errorf("after a reset the pause is %s, want %s", got, firstPause)
	}
	longest = nil
	for range 6 {
		longest = append(longest, b.next(lastAwayPause, 0))
	}
	longest = append(longest, b.next(lastPause, 0), b.next(lastPause, 0), b.next(lastPause, 0),
		b.next(lastAwayPause, 0))
	if diff := cmp.Diff(s(1, 2, 4, 5, 5, 5, 8, 16, 30, 5), longest); diff != "" {
		t.Errorf("longest pauses without a connection, and then with refusals (-want +got):\n%s", diff)
	}
}

func TestBackoff_IsWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b backoff
		for range rapid.IntRange(1, 100).Draw(t, "attempts") {
			longest := rapid.SampledFrom([]time.Duration{lastAwayPause, lastPause}).Draw(t, "longest")
			if pause := b.next(longest, rapid.Float64Range(0, 1).Draw(t, "random")); pause < firstPause/2 ||
				pause > longest {
				t.Fatalf("pause is %s, the longest %s", pause, longest)
			}
		}
	})
}

func TestReplicas_NumberOfSessions(t *testing.T) {
	r := newReplicas()
	is := func(when string, lacking, connected, told bool) {
		t.Helper()
		if r.lacking() != lacking || r.connected() != connected {
			t.Errorf("%s: missing is %t and connected %t, want %t and %t", when, r.lacking(), r.connected(), lacking,
				connected)
		}
		select {
		case <-r.changed:
			if !told {
				t.Errorf("%s: an unexpected change is reported", when)
			}
		default:
			if told {
				t.Errorf("%s: the change is not reported", when)
			}
		}
	}
	is("in the beginning", true, false, false)
	if !r.add("a") || r.add("a") {
		t.Error("a replica must be added exactly once")
	}
	is("with one", false, true, false)
	r.want(1)
	is("with the same number", false, true, false)
	r.want(3)
	is("with three replicas", true, true, true)
	r.add("b")
	r.add("c")
	is("with a session to each", false, true, false)
	r.want(0)
	is("with a number that cannot be", false, true, true)
	r.want(-5)
	is("with another that cannot be", false, true, false)
	if r.takeLost() {
		t.Error("a replica is lost too early")
	}
	r.want(2)
	<-r.changed
	r.remove("a")
	r.remove("b")
	is("with two of three lost", true, true, true)
	if !r.takeLost() || r.takeLost() {
		t.Error("the loss of replicas must be reported exactly once")
	}
	r.remove("c")
	is("with none", true, false, true)
}

func TestLongest_PausesAreShortWithoutAServer(t *testing.T) {
	for code, want := range map[int]time.Duration{
		http.StatusBadRequest: lastPause, http.StatusUnauthorized: lastPause, http.StatusTooManyRequests: lastPause,
		http.StatusInternalServerError: lastPause,
		http.StatusBadGateway:          lastAwayPause, http.StatusServiceUnavailable: lastAwayPause,
		http.StatusGatewayTimeout:          lastAwayPause,
		http.StatusHTTPVersionNotSupported: lastPause,
	} {
		answer := &http.Response{StatusCode: code, Status: http.StatusText(code), Body: http.NoBody}
		if got := longest(fmt.Errorf("open a session: %w", refusal(websocket.ErrBadHandshake, answer))); got != want {
			t.Errorf("after an answer %d the longest pause is %s, want %s", code, got, want)
		}
	}
}

func TestRun_PausesBetweenAttempts(t *testing.T) {
	own := newAuthority(t, "own")
	for name, test := range map[string]struct {
		err          error
		longest      time.Duration
		fewest, most int // attempts per hour
	}{
		"the server refuses": {errors.New("no network"), lastPause, 120, 250},
		"no connection is possible": {&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, lastAwayPause, 720,
			1450},
		"the connection breaks at once": {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, lastPause, 120, 250},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tried := attempts(t, own, test.err)
				var b backoff
				different := map[time.Duration]bool{}
				for i := 1; i < len(tried); i++ {
					pause, longest := tried[i]-tried[i-1], b.next(test.longest, 0)
					if pause < longest/2 || pause > longest {
						t.Errorf("pause %d is %s, want %s to %s", i, pause, longest/2, longest)
					}
					different[pause] = true
				}
				if len(tried) < test.fewest || len(tried) > test.most {
					t.Errorf("tried %d times in an hour, want %d to %d", len(tried), test.fewest, test.most)
				}
				if len(different) < len(tried)/2 {
					t.Errorf("%d different pauses of %d: all agents would connect at once", len(different), len(tried))
				}
			})
		})
	}
}

// attempts are the times at which an agent tries to connect within an hour of failures.
func attempts(t *testing.T, own *authorityOf, failed error) []time.Duration {
	t.Helper()
	o := options(t, "https://drover.example.com", own.pem, nil)
	writeFile(t, o.APIServerCAFile, own.pem)
	begun := time.Now()
	var tried []time.Duration
	o.Proxy = func(*http.Request) (*url.URL, error) {
		tried = append(tried, time.Since(begun))
		return nil, failed
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := Run(ctx, o); err != nil {
		t.Errorf("after the end of the context: error %v", err)
	}
	if took := time.Since(begun); took != time.Hour {
		t.Errorf("it ends after %s, want the end of its context", took)
	}
	return tried
}

// After a duplicate session the pauses stay short, because it is no failure.
func TestRun_PausesAfterDuplicatesDoNotGrow(t *testing.T) {
	d, api := newDrover(t, "a", "a", "a"), newAPIServer(t)
	start(t, options(t, d.URL, d.authorities, api))
	begun := time.Now()
	for range 5 {
		d.await(t)
	}
	if took := time.Since(begun); took < 3*duplicatePause || took > 3*2*duplicatePause+2*time.Second {
		t.Errorf("the fourth duplicate came after %s, want three pauses of %s to %s", took, duplicatePause,
			2*duplicatePause)
	}
	if got := d.open(); len(got) < 1 {
		t.Error("the session to keep has ended")
	}
}

// A missing token is not treated as a network problem.
func TestRun_WaitsForItsToken(t *testing.T) {
	own := newAuthority(t, "own")
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "https://drover.example.com", own.pem, nil)
		writeFile(t, o.APIServerCAFile, own.pem)
		o.TokenFile = filepath.Join(t.TempDir(), "late")
		asked := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		o.Proxy = func(*http.Request) (*url.URL, error) {
			asked++
			cancel()
			return nil, errors.New("no network")
		}
		begun := time.Now()
		time.AfterFunc(10*time.Minute, func() {
			if asked != 0 {
				t.Error("the agent sends a request without a token")
			}
			writeFile(t, o.TokenFile, registration)
		})
		if err := Run(ctx, o); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); asked != 1 || took < 10*time.Minute || took > 10*time.Minute+lastPause {
			t.Errorf("%d requests in %s, want one and at most %s after ten minutes", asked, took, lastPause)
		}
	})
}
