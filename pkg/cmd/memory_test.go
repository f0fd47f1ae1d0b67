package cmd

import (
	"errors"
	"io"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
)

func TestLimitMemory_FollowsTheContainer(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	log := logrus.New()
	log.SetOutput(io.Discard)
	unlimited := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	unknown := func() (uint64, error) { return 0, errors.New("none") }
	for name, tc := range map[string]struct {
		limit       memlimit.Provider
		environment string
		want        int64
	}{
		"nine tenths of the limit":    {limit: memlimit.Limit(1000 << 20), want: 900 << 20},
		"no limit":                    {limit: unlimited, want: math.MaxInt64},
		"no control group":            {limit: unknown, want: math.MaxInt64},
		"the environment is stronger": {limit: memlimit.Limit(1000 << 20), environment: "1GiB", want: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv("GOMEMLIMIT", tc.environment)
			if tc.environment == "" {
				_ = os.Unsetenv("GOMEMLIMIT") // it fails only for invalid names
			}
			limitMemory(log, tc.limit)
			if got := debug.SetMemoryLimit(-1); got != tc.want {
				t.Errorf("the limit is %d bytes, want %d", got, tc.want)
			}
		})
	}
}
