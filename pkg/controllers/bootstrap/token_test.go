package bootstrap_test

import (
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// TestToken_EndsOnce: when a token goes out of use, and that nothing is written to it again.
func TestToken_EndsOnce(t *testing.T) {
	const name = "m1-machine-bootstrap-token"
	used := func(w *world, at string) { w.annotateSecret(name, rkev1.LastAccessAnnotation, at) }
	cases := map[string]struct {
		settings func(w *world)
		happens  func(w *world)
		good     time.Duration // how long it has to be good from then; 0 is not at all
		forever  bool
	}{
		"machine that never comes": {happens: func(*world) {}, good: 29 * time.Minute},
		"machine that has introduced itself": {
			happens: func(w *world) { used(w, time.Now().UTC().Format(time.RFC3339)) }, good: 9 * time.Minute,
		},
		"machine that has become a node": {happens: func(w *world) { w.join("m1") }},
		"time of use that is no time":    {happens: func(w *world) { used(w, "yesterday") }},
		"no bounds": {
			settings: func(w *world) { w.setup.UnusedTTL, w.setup.ReusedTTL = 0, 0 }, happens: func(*world) {}, forever: true,
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
				over := func() bool { return w.secret(name).Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] == "true" }
				if over() {
					t.Fatal("the token is out of use from the start")
				}
				c.happens(w)
				w.elapse(c.good)
				if c.good > 0 && over() {
					t.Errorf("out of use within %s", c.good)
				}
				w.elapse(90 * time.Second)
				if c.forever {
					w.elapse(24 * time.Hour)
				}
				if over() == c.forever {
					t.Errorf("out of use: %v", over())
				}
				w.wantQuiet(time.Hour)
			})
		})
	}
}

// TestToken_EndsWhileNobodyLooks: the time passes while no process runs.
func TestToken_EndsWhileNobodyLooks(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{name: "m1"})
		w.settle()
		w.stop()
		w.elapse(time.Hour)
		w.start()
		w.settle()
		if w.secret("m1-machine-bootstrap-token").Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "true" {
			t.Error("the token is still good")
		}
	})
}
