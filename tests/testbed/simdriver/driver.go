// Package simdriver is the node driver of simulated machines, as a plugin of rancher/machine. It is a real program
// behind a NodeDriver's URL, so its flags become kinds like those of any other driver. The machines exist only in its
// state. In tests without pods its Jobs do not run. Package fakeagent simulates them.
package simdriver

import (
	"errors"
	"fmt"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
)

// Name is the driver's name. Its flags are called sim-…, its machine config SimConfig.
const Name = "sim"

// Driver simulates machines. rancher-machine stores its exported fields between create and remove.
type Driver struct {
	*drivers.BaseDriver
	// Token is the credential.
	Token string
	// Size, CPUs and Tags cover different types of flags.
	Size string
	CPUs int
	Tags []string
	// Userdata is the path of a file.
	Userdata string
	// FailCreate makes Create fail with this message.
	FailCreate string
	// Made is true once Create was called.
	Made bool
}

var _ drivers.Driver = (*Driver)(nil)

// New returns a driver for a machine that does not exist yet.
func New(machine, store string) *Driver {
	return &Driver{BaseDriver: &drivers.BaseDriver{MachineName: machine, StorePath: store, SSHUser: "root"}}
}

// DriverName is the plugin's name.
func (d *Driver) DriverName() string { return Name }

// GetCreateFlags returns one flag of every type, including a credential and a file.
func (d *Driver) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "sim-token", Usage: "Token of the simulated cloud", EnvVar: "SIM_TOKEN"},
		mcnflag.StringFlag{Name: "sim-size", Usage: "Size of the machine", Value: "small"},
		mcnflag.IntFlag{Name: "sim-cpu-count", Usage: "Number of processors", Value: 2},
		mcnflag.BoolFlag{Name: "sim-monitoring", Usage: "Watch the machine"},
		mcnflag.StringSliceFlag{Name: "sim-tags", Usage: "Tags of the machine"},
		mcnflag.StringFlag{Name: "sim-userdata", Usage: "Path of a cloud-config"},
		mcnflag.StringFlag{Name: "sim-fail-create", Usage: "Message that creation fails with"},
	}
}

// SetConfigFromFlags reads the settings of a create, or of a remove with new credentials.
func (d *Driver) SetConfigFromFlags(flags drivers.DriverOptions) error {
	d.Token = flags.String("sim-token")
	d.Size = flags.String("sim-size")
	d.CPUs = flags.Int("sim-cpu-count")
	d.Tags = flags.StringSlice("sim-tags")
	d.Userdata = flags.String("sim-userdata")
	d.FailCreate = flags.String("sim-fail-create")
	return nil
}

// PreCreateCheck rejects a machine without processors.
func (d *Driver) PreCreateCheck() error {
	if d.CPUs < 1 {
		return fmt.Errorf("sim-cpu-count is %d, want at least 1", d.CPUs)
	}
	return nil
}

// Create simulates a creation.
func (d *Driver) Create() error {
	if d.FailCreate != "" {
		return errors.New(d.FailCreate)
	}
	d.Made, d.IPAddress = true, "192.0.2.1"
	return nil
}

// Remove simulates a removal.
func (d *Driver) Remove() error {
	d.Made = false
	return nil
}

// GetState returns Running from creation to removal.
func (d *Driver) GetState() (state.State, error) {
	if d.Made {
		return state.Running, nil
	}
	return state.NotFound, nil
}

// GetURL returns "", because there is no Docker.
func (d *Driver) GetURL() (string, error) { return "", nil }

// GetSSHHostname returns the machine's address.
func (d *Driver) GetSSHHostname() (string, error) { return d.IPAddress, nil }

// Start does nothing.
func (d *Driver) Start() error { return nil }

// Stop does nothing.
func (d *Driver) Stop() error { return nil }

// Restart does nothing.
func (d *Driver) Restart() error { return nil }

// Kill does nothing.
func (d *Driver) Kill() error { return nil }
