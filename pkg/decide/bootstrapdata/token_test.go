package bootstrapdata_test

import (
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
)

func TestToken_Expired(t *testing.T) {
	const reuse = 30 * time.Second
	for name, test := range map[string]struct {
		token    bootstrapdata.Token
		reuse    time.Duration
		want     bool
		wantLeft time.Duration
	}{
		"never used": {bootstrapdata.Token{}, reuse, false, 0},
		"just used": {bootstrapdata.Token{LastUse: noon.Add(-10 * time.Second), Heard: true}, reuse,
			false, 20 * time.Second},
		"used earlier":              {bootstrapdata.Token{LastUse: noon.Add(-reuse), Heard: true}, reuse, true, 0},
		"its agent never connected": {bootstrapdata.Token{LastUse: noon.Add(-reuse)}, reuse, false, 0},
		"its machine is a node":     {bootstrapdata.Token{Joined: true}, reuse, true, 0},
		"its last use is unknown":   {bootstrapdata.Token{BadLastUse: true}, reuse, true, 0},
		"used, no bound":            {bootstrapdata.Token{LastUse: noon.AddDate(-1, 0, 0), Heard: true}, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			test.token.Now = noon
			got, left := test.token.Expired(test.reuse)
			if got != test.want || left != test.wantLeft {
				t.Errorf("expired %v, %s left; want %v, %s", got, left, test.want, test.wantLeft)
			}
		})
	}
}
