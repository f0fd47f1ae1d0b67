package clusterproxy

import (
	"net/http"
	"testing"
)

// codes records all status codes that it receives, including interim ones.
type codes struct {
	http.ResponseWriter
	told []int
}

func (c *codes) WriteHeader(code int) { c.told = append(c.told, code) }

// Only final answers are forwarded: interim answers are dropped, and protocol switches use Hijack.
func TestRecorder_ForwardsOnlyFinalAnswers(t *testing.T) {
	below := &codes{}
	r := &recorder{ResponseWriter: below}
	for _, code := range []int{http.StatusContinue, http.StatusSwitchingProtocols, http.StatusEarlyHints, 199} {
		if r.WriteHeader(code); len(below.told) > 0 || r.status != 0 {
			t.Fatalf("%d is forwarded as %v, and recorded as %d", code, below.told, r.status)
		}
	}
	if r.WriteHeader(http.StatusOK); len(below.told) != 1 || below.told[0] != http.StatusOK ||
		r.status != http.StatusOK {
		t.Errorf("forwarded: %v, recorded: %d", below.told, r.status)
	}
}
