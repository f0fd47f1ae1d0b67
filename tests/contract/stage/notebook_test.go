package stage

import (
	"fmt"
	"testing"
)

// A goroutine that outlives its test logs nothing, because the test would panic.
func TestNotebook_EndsWithItsTest(t *testing.T) {
	var n *notebook
	t.Run("a story", func(t *testing.T) {
		n = newNotebook(t)
		n.Logf("in %s", "time")
		t.Cleanup(func() {
			if n.ended {
				t.Error("the log ends before what the story has started")
			}
		})
	})
	n.t = nil // every use would panic
	n.Logf("late")
	if _, err := fmt.Fprintln(n, "late"); err != nil {
		t.Error(err)
	}
}
