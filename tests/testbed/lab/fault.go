package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Actions at which a fault can occur.
const (
	// Check is the check of the node driver before it creates a machine. It has faults of the driver only.
	Check  = "check"
	Create = "create"
	Delete = "delete"
)

// Mode is how the node driver fails.
type Mode string

// The modes of faults.
const (
	// CloudFails means that the lab's API answers with an error and does nothing. All other modes are faults of the
	// driver, which asks the lab for them.
	CloudFails Mode = ""
	// FailsBefore means that the driver fails before it calls the lab.
	FailsBefore Mode = "before"
	// FailsAfter means that the driver fails after the lab has done what the driver asked for.
	FailsAfter Mode = "after"
	// Hangs means that the driver never ends after the lab has done what the driver asked for.
	Hangs Mode = "hang"
	// Crashes means that the driver's process ends after the lab has done what the driver asked for.
	Crashes Mode = "crash"
	// Slow means that the driver succeeds after a few seconds.
	Slow Mode = "slow"
)

// Fault makes the next matching calls fail, as a cloud's calls sometimes do.
type Fault struct {
	// Action is check, create or delete.
	Action string `json:"action"`
	// Machine is a name, the beginning of names with a final "*", or empty for any machine.
	Machine string `json:"machine,omitempty"`
	// Times is the number of calls that fail. Zero means one.
	Times int `json:"times,omitempty"`
	// Mode is how the calls fail.
	Mode Mode `json:"mode,omitempty"`
	// Message is the error message for the caller.
	Message string `json:"message"`
}

func (f *Fault) matches(action, machine string) bool {
	prefix, several := strings.CutSuffix(f.Machine, "*")
	named := f.Machine == "" || f.Machine == machine || several && strings.HasPrefix(machine, prefix)
	return f.Times > 0 && f.Action == action && named
}

// Inject adds a fault.
func (l *Lab) Inject(fault Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fault.Times = max(fault.Times, 1)
	l.faults = append(l.faults, fault)
}

// Withdraw removes the remaining faults of machines whose names the pattern of Fault.Machine describes.
func (l *Lab) Withdraw(machines string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = slices.DeleteFunc(l.faults, func(f Fault) bool { return f.Machine == machines })
}

// Occurred returns the faults that have occurred, in order, with the names of their machines.
func (l *Lab) Occurred() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.occurred)
}

// takeFault uses up one fault of the lab's API. The caller holds the lock.
func (l *Lab) takeFault(action, machine string) error {
	if fault := l.take(action, machine, func(mode Mode) bool { return mode == CloudFails }); fault != nil {
		return fmt.Errorf("%w: %s", ErrFault, fault.Message)
	}
	return nil
}

// nextFault uses up one fault of the driver. It returns a fault without a mode if there is none.
func (l *Lab) nextFault(action, machine string) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fault := l.take(action, machine, func(mode Mode) bool { return mode != CloudFails }); fault != nil {
		return *fault
	}
	return Fault{}
}

func (l *Lab) take(action, machine string, has func(Mode) bool) *Fault {
	for i := range l.faults {
		fault := &l.faults[i]
		if !has(fault.Mode) || !fault.matches(action, machine) {
			continue
		}
		fault.Times--
		happened := *fault
		happened.Machine, happened.Times = machine, 1
		l.occurred = append(l.occurred, happened)
		return &happened
	}
	return nil
}
