package nspawn

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/drover-io/drover/tests/testbed/lab"
)

// slowness is how much longer a slow action takes.
const slowness = 3 * time.Second

// faulty does an action with the fault that the lab has for it, if any. Each fault that a driver can have after its
// call leaves the lab and the caller with different knowledge.
func (d *Driver) faulty(action string, do func(context.Context, *lab.Client) error) error {
	var fault lab.Fault
	if err := d.call(func(ctx context.Context, client *lab.Client) (err error) {
		fault, err = client.NextFault(ctx, action, d.MachineName)
		return err
	}); err != nil {
		return err
	}
	switch fault.Mode { // the others follow the action
	case lab.FailsBefore:
		return errors.New(fault.Message)
	case lab.Slow:
		time.Sleep(slowness) //nolint:forbidigo // the fault is that time passes
	}
	err := d.call(do)
	switch fault.Mode { // the others come before the action
	case lab.FailsAfter:
		return errors.New(fault.Message)
	case lab.Hangs:
		select {} // heartbeats of rancher-machine keep the process
	case lab.Crashes:
		os.Exit(2)
	}
	return err
}
