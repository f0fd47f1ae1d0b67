package unread

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// act is a step of a story about streams. Each holds 10 bytes.
type act struct {
	after          time.Duration
	blocks, writes string // names of streams, TENANT/NAME
	patient        bool
}

// play runs a story and returns the ended streams with the reason and the time.
func play(t *testing.T, o Options, story []act) (ended []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		reasons, lines := make(chan string, 100), make(chan string, 100)
		o.Ended = func(reason string) { reasons <- reason }
		l := New(o)
		goOn := map[string]chan struct{}{}
		for _, step := range story {
			time.Sleep(step.after)
			switch {
			case step.blocks != "":
				blocked := make(chan struct{})
				goOn[step.blocks] = blocked
				tenant := step.blocks[:1]
				s := l.Stream(tenant, Kind{Holds: 10, Patient: step.patient}, closing(blocked))
				go func() {
					if err := s.Do(func() error { <-blocked; return nil }); errors.Is(err, ErrUnread) {
						lines <- step.blocks + " " + <-reasons + " " + time.Since(begun).String()
					}
				}()
				synctest.Wait()
			case step.writes != "":
				close(goOn[step.writes])
				synctest.Wait()
			}
		}
		time.Sleep(time.Hour)
		for _, blocked := range goOn {
			closing(blocked)()
		}
		synctest.Wait()
		close(lines)
		for line := range lines {
			ended = append(ended, line)
		}
		if len(l.tenants) > 0 || l.bytes != 0 {
			t.Errorf("%d tenants and %d bytes are left", len(l.tenants), l.bytes)
		}
	})
	return ended
}

// closing closes a channel unless it is closed.
func closing(c chan struct{}) func() {
	return func() {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

func TestLedger(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given Options
		story []act
		want  []string
	}{
		{name: "a blocked stream ends after a minute",
			story: []act{{blocks: "a/1"}, {after: time.Second, blocks: "b/1"}},
			want:  []string{"a/1 timeout 1m0s", "b/1 timeout 1m1s"}},
		{name: "a stream that goes on stays",
			story: []act{{blocks: "a/1"}, {after: 59 * time.Second, writes: "a/1"}}},
		{name: "a patient stream stays without a budget",
			story: []act{{blocks: "a/1", patient: true}, {blocks: "a/2"}},
			want:  []string{"a/2 timeout 1m0s"}},
		{name: "the stream that is blocked longest ends when its tenant holds too much",
			given: Options{TenantBytes: 20},
			story: []act{{blocks: "a/1", patient: true}, {after: time.Second, blocks: "a/2", patient: true},
				{after: time.Second, blocks: "a/3", patient: true}},
			want: []string{"a/1 budget 2.25s"}},
		{name: "a short crowd ends no stream",
			given: Options{TenantBytes: 10},
			story: []act{{blocks: "a/1", patient: true}, {blocks: "a/2", patient: true},
				{after: 200 * time.Millisecond, writes: "a/1"}}},
		{name: "each tenant has its own budget",
			given: Options{TenantBytes: 20},
			story: []act{{blocks: "a/1", patient: true}, {blocks: "a/2", patient: true}, {blocks: "b/1", patient: true},
				{blocks: "b/2", patient: true}}},
		{name: "the tenant with the most pays for all",
			given: Options{Bytes: 30},
			story: []act{{blocks: "b/1", patient: true}, {after: time.Second, blocks: "a/1", patient: true},
				{blocks: "a/2", patient: true}, {after: time.Second, blocks: "a/3", patient: true}},
			want: []string{"a/1 budget 2.25s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, play(t, tt.given, tt.story)); diff != "" {
				t.Errorf("ended streams (-want +got):\n%s", diff)
			}
		})
	}
}
