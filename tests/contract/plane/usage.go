package plane

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Usage is the resource usage of a process.
type Usage struct {
	// CPU is the time on all cores since the process started.
	CPU time.Duration
	// Resident is memory in bytes.
	Resident int64
}

// UsageOf returns the usage of a component of the plane.
func UsageOf(tb testing.TB, component string) Usage {
	tb.Helper()
	return UsageOfProcess(tb, plane(tb).PID(component))
}

// ticks is the number of the kernel's clock ticks per second. It is 100 on every Linux that Go supports.
const ticks = 100

// UsageOfProcess returns the usage of a process.
func UsageOfProcess(tb testing.TB, pid int) Usage {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	// The name of the program, in parentheses, may contain anything. The fields after it are numbers.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	number := func(field int) int64 {
		value, err := strconv.ParseInt(fields[field-3], 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
	const user, system, residentPages = 14, 15, 24
	return Usage{
		CPU:      time.Duration(number(user)+number(system)) * time.Second / ticks,
		Resident: number(residentPages) * int64(os.Getpagesize()),
	}
}
