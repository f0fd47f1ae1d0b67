package lab

import (
	"errors"
	"testing"
)

func TestFaults_OccurOnceAtTheirMachines(t *testing.T) {
	l := newLab(Config{Name: "faulttest", Dir: t.TempDir()})
	l.Inject(Fault{Action: Create, Machine: "one-*", Mode: Crashes})
	l.Inject(Fault{Action: Create, Machine: "one-*", Message: "quota"})
	l.Inject(Fault{Action: Delete, Machine: "one-*", Mode: Slow})
	if fault := l.nextFault(Create, "two-a"); fault.Mode != "" {
		t.Errorf("another machine has fault %+v", fault)
	}
	if err := l.takeFault(Create, "one-a"); !errors.Is(err, ErrFault) {
		t.Errorf("the lab's own fault: %v", err)
	}
	if fault := l.nextFault(Create, "one-b"); fault.Mode != Crashes {
		t.Errorf("the driver's fault is %+v", fault)
	}
	if fault := l.nextFault(Create, "one-b"); fault.Mode != "" {
		t.Errorf("a fault occurs twice: %+v", fault)
	}
	if got := l.Occurred(); len(got) != 2 || got[0].Machine != "one-a" || got[1].Machine != "one-b" {
		t.Errorf("faults that occurred: %+v", got)
	}
	l.Withdraw("one-*")
	if fault := l.nextFault(Delete, "one-a"); fault.Mode != "" {
		t.Errorf("a withdrawn fault occurs: %+v", fault)
	}
}
