package planstore

import (
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// The requests of a drain and of its end have a time, so that both have a deadline.
func TestPlans_DrainsHaveATime(t *testing.T) {
	const options = `{"enabled":true}`
	a := &api{stored: planSecret(nil)}
	plans := NewPlans(a, a)
	secret, err := plans.RequestDrain(a.stored, planner.RequestDrain{Machine: "m", At: noon, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	if got := decode(secret).Drain.Since; !got.Equal(noon) {
		t.Errorf("requested since %s", got)
	}
	if again, err := plans.RequestDrain(secret, planner.RequestDrain{Machine: "m", At: noon.Add(time.Hour),
		Options: options}); err != nil || again != secret {
		t.Errorf("a requested drain starts again: %v", err)
	}
	secret, err = plans.RequestUncordon(secret, planner.RequestUncordon{Machine: "m", At: noon.Add(time.Minute),
		Options: options})
	if err != nil {
		t.Fatal(err)
	}
	if got := decode(secret).Drain.Since; !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("the end is requested since %s", got)
	}
}
