package bootstrap_test

import (
	"net/http"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// TestToken_ExpiresOnce: a token is invalidated at the right time, and not written again.
func TestToken_ExpiresOnce(t *testing.T) {
	const name = "m1-machine-bootstrap-token"
	used := func(w *world, at string) { w.annotateSecret(name, rkev1.LastAccessAnnotation, at) }
	now := func() string { return time.Now().UTC().Format(time.RFC3339) }
	cases := map[string]struct {
		settings func(w *world)
		happens  func(w *world)
		good     time.Duration // how long it must stay valid from then on; 0 means not at all
		forever  bool
	}{
		"a slow machine": {happens: func(*world) {}, forever: true},
		"a machine that has registered, and has not reported": {happens: func(w *world) { used(w, now()) },
			forever: true},
		"a machine whose agent has reported": {happens: func(w *world) { used(w, now()); w.reports("m1") },
			good: 9 * time.Minute},
		"a machine whose agent reports late": {happens: func(w *world) {
			used(w, now())
			w.elapse(time.Hour)
			w.reports("m1")
		}},
		"a machine that is a node": {happens: func(w *world) { w.join("m1") }},
		"an invalid time of use":   {happens: func(w *world) { used(w, "yesterday") }},
		"without a TTL": {
			settings: func(w *world) { w.setup.ReusedTTL = 0 },
			happens:  func(w *world) { used(w, now()); w.reports("m1") }, forever: true,
		},
	}
	for title, c := range cases {
		t.Run(title, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				if c.settings != nil {
					c.settings(w)
					w.restart()
				}
				w.add(machine{name: "m1"})
				w.settle()
				over := func() bool {
					return w.secret(name).Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] == "true"
				}
				if over() {
					t.Fatal("the token is invalid from the start")
				}
				c.happens(w)
				w.elapse(c.good)
				if c.good > 0 && over() {
					t.Errorf("invalidated within %s", c.good)
				}
				w.elapse(90 * time.Second)
				if c.forever {
					w.elapse(24 * time.Hour)
				}
				if over() == c.forever {
					t.Errorf("invalidated: %v", over())
				}
				w.wantQuiet(time.Hour)
			})
		})
	}
}

// TestToken_ExpiresWithoutAnEvent: a token also expires while no process runs.
func TestToken_ExpiresWithoutAnEvent(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{name: "m1"})
		w.settle()
		w.annotateSecret("m1-machine-bootstrap-token", rkev1.LastAccessAnnotation,
			time.Now().UTC().Format(time.RFC3339))
		w.reports("m1")
		w.stop()
		w.elapse(time.Hour)
		w.start()
		w.settle()
		if w.secret("m1-machine-bootstrap-token").Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "true" {
			t.Error("the token is still valid")
		}
	})
}

// TestStory_SlowMachineWhereverTheProcessIsKilled: a machine that starts late gets its connection, and its token is its
// alone from then on and invalid once it is a node.
func TestStory_SlowMachineWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, func(_ *testing.T, w *world) {
		w.serves = true
		w.restart()
	}, func(t *testing.T, w *world) {
		w.add(machine{name: "m1"})
		w.settle()
		token := tokenInScript.FindStringSubmatch(w.data("m1"))[1]
		before := w.api.Written(manager)
		w.elapse(26 * time.Hour)
		if n := w.api.Written(manager) - before; n > 0 {
			t.Errorf("%d writes for a machine that has not reported", n)
		}
		w.introduces("m1", "slow-machine")
		w.settle()
		if got := w.machine("m1").Labels[rkev1.MachineIDLabel]; got != "slow-machine" {
			t.Errorf("identity of the Machine is %q", got)
		}
		if code, _ := introduceAs(t, w.served, token, "another-owner"); code != http.StatusConflict {
			t.Errorf("the endpoint answers another identity with %d", code)
		}
		w.introduces("m1", "slow-machine")
		w.elapse(26 * time.Hour)
		w.introduces("m1", "slow-machine") // its installation takes a day
		w.reports("m1")
		w.elapse(w.setup.ReusedTTL + time.Second)
		if code, _ := introduceAs(t, w.served, token, "slow-machine"); code != http.StatusUnauthorized {
			t.Errorf("the endpoint answers a machine whose agent has its own credential with %d", code)
		}
		w.join("m1")
		w.settle()
		if code, _ := introduceAs(t, w.served, token, "slow-machine"); code != http.StatusUnauthorized {
			t.Errorf("the endpoint answers a node with %d", code)
		}
	})
}
