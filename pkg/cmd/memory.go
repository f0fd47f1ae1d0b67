package cmd

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
)

// memoryRatio is the part of the container's memory that the garbage collector may fill. The rest is for memory that it
// does not count, such as that of the kernel.
const memoryRatio = 0.9

// limitMemory makes the garbage collector work harder near the memory limit of the container or service, which
// otherwise ends the program first. GOMEMLIMIT in the environment has priority. Without a limit, nothing changes.
func limitMemory(log logrus.FieldLogger, limit memlimit.Provider) {
	got, err := memlimit.Set(memlimit.WithRatio(memoryRatio), memlimit.WithProvider(limit))
	switch {
	case err != nil:
		log.WithError(err).Debug("The memory limit is unknown")
	case got < math.MaxInt64:
		log.WithField("bytes", got).Debug("The garbage collector knows the memory limit")
	}
}
