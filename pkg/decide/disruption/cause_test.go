package disruption

import "testing"

func TestCauses_AllButOneAreRequested(t *testing.T) {
	seen := map[Cause]bool{}
	for _, cause := range Causes() {
		if seen[cause] {
			t.Errorf("%s is listed twice", cause)
		}
		seen[cause] = true
		if (cause.Kind() == KindNone) != (cause == Unknown) {
			t.Errorf("%s is of kind %q", cause, cause.Kind())
		}
	}
	for cause, want := range map[Cause]Kind{EditVersion: KindEdit, HealthServerLost: KindHealth,
		CommandRoll: KindCommand, "editor": KindNone, "": KindNone} {
		if got := cause.Kind(); got != want {
			t.Errorf("%q is of kind %q, want %q", cause, got, want)
		}
	}
}
