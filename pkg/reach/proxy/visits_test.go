package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/reach/tunnel"
)

// visitor records visits, and answers as the test decides.
type visitor struct {
	mu     sync.Mutex
	at     map[string][]time.Duration
	began  time.Time
	answer func(ctx context.Context, name string) (time.Duration, error)
}

func (v *visitor) visit(ctx context.Context, cluster types.NamespacedName) (time.Duration, error) {
	v.mu.Lock()
	v.at[cluster.Name] = append(v.at[cluster.Name], time.Since(v.began).Truncate(time.Millisecond))
	v.mu.Unlock()
	return v.answer(ctx, cluster.Name)
}

func (v *visitor) times(name string) []time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at[name]
}

func called(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "n", Name: name}
}

func inVisits(t *testing.T, answer func(ctx context.Context, name string) (time.Duration, error),
	f func(v *visitor, visits *proxy.Visits, log *bytes.Buffer)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out, log := &bytes.Buffer{}, logrus.New()
		log.SetOutput(out)
		v := &visitor{at: map[string][]time.Duration{}, began: time.Now(), answer: answer}
		visits := proxy.NewVisits(ctx, v.visit, log, "Cannot visit")
		f(v, visits, out)
		cancel()
		synctest.Wait()
	})
}

// Wake-ups that come together cause one visit. The next one comes when the visit asks for it.
func TestVisits_Pace(t *testing.T) {
	inVisits(t, func(context.Context, string) (time.Duration, error) { return time.Hour, nil },
		func(v *visitor, visits *proxy.Visits, _ *bytes.Buffer) {
			for range 10 {
				visits.Wake(called("a"))
			}
			time.Sleep(2*time.Hour + time.Minute)
			if got, want := fmt.Sprint(v.times("a")), "[1s 1h0m1s 2h0m1s]"; got != want {
				t.Errorf("visits at %s, want %s", got, want)
			}
		})
}

// A failing cluster is visited less and less often, whatever wakes it, until it connects. Its log has one line.
func TestVisits_BackOff(t *testing.T) {
	inVisits(t, func(_ context.Context, name string) (time.Duration, error) {
		if name == "panics" {
			panic("a mistake")
		}
		return 0, errors.New(strings.Repeat("long ", 1000))
	}, func(v *visitor, visits *proxy.Visits, log *bytes.Buffer) {
		for _, name := range []string{"fails", "panics"} {
			visits.Wake(called(name))
		}
		for range 600 {
			time.Sleep(time.Second)
			visits.Wake(called("fails"))
		}
		for _, name := range []string{"fails", "panics"} {
			if got := len(v.times(name)); got < 6 || got > 12 {
				t.Errorf("%d visits to the cluster that %s: %v", got, name, v.times(name))
			}
		}
		if lines := strings.Count(log.String(), "Cannot visit"); lines != 2 || log.Len() > 20_000 {
			t.Errorf("%d lines and %d bytes in the log", lines, log.Len())
		}
		before := len(v.times("fails"))
		visits.Connected(called("fails"))
		time.Sleep(2 * time.Second)
		if len(v.times("fails")) != before+1 {
			t.Error("a new connection does not end the back-off")
		}
	})
}

// Clusters that accept requests and never answer delay no others, and their visits end.
func TestVisits_SilentClustersDelayNoOthers(t *testing.T) {
	inVisits(t, func(ctx context.Context, name string) (time.Duration, error) {
		if strings.HasPrefix(name, "silent") {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return time.Second, nil
	}, func(v *visitor, visits *proxy.Visits, _ *bytes.Buffer) {
		for i := range 40 {
			visits.Wake(called(fmt.Sprint("silent-", i)))
		}
		time.Sleep(10 * time.Minute) // every silent cluster has failed once
		visits.Wake(called("a"))
		time.Sleep(time.Minute)
		if got := len(v.times("a")); got < 55 {
			t.Errorf("%d visits to the healthy cluster in a minute", got)
		}
	})
}

// A cluster without a connection is no failure. Its caller wakes it, and a slow check finds missed wake-ups.
func TestVisits_NoConnection(t *testing.T) {
	inVisits(t, func(context.Context, string) (time.Duration, error) {
		return 0, fmt.Errorf("reach it: %w", tunnel.ErrSessionEnded)
	}, func(v *visitor, visits *proxy.Visits, log *bytes.Buffer) {
		visits.Wake(called("a"))
		time.Sleep(time.Hour)
		if got := len(v.times("a")); got != 12 || log.Len() > 0 {
			t.Errorf("%d visits in an hour; log %s", got, log)
		}
	})
}

func TestShortened_TruncatesErrors(t *testing.T) {
	t.Parallel()
	if got := proxy.Shortened(errors.New(strings.Repeat("x", 1<<20))); len(got) > 3000 {
		t.Errorf("%d bytes", len(got))
	}
	if got := proxy.Shortened(errors.New("short")); got != "short" {
		t.Errorf("the text is %q", got)
	}
}
