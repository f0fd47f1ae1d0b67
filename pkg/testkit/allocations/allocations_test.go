package allocations

import (
	"testing"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

var kept []byte

func TestOf_CountsTheBytesOfTheCall(t *testing.T) {
	got := Of(func() { kept = make([]byte, 1<<20) })
	if got < 1<<20 || got > 2<<20 {
		t.Errorf("1 MiB counts as %d bytes", got)
	}
}

func TestAtMost_FailsOnlyBeyondTheLimit(t *testing.T) {
	if crashpoints.Raced {
		t.Skip("the race detector allocates much itself")
	}
	AtMost(t, 2<<20, func() { kept = make([]byte, 1<<20) })
	beyond := &recorder{TB: t}
	AtMost(beyond, 1<<20, func() { kept = make([]byte, 2<<20) })
	if !beyond.failed {
		t.Error("2 MiB stay within a limit of 1 MiB")
	}
}

type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
