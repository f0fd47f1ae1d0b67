// Command simdriver is the node driver `sim` as a plugin of rancher/machine. Drover runs it to learn its flags, as with
// any third-party driver. It never creates a machine, because the fake agents complete the Jobs.
package main

import (
	"errors"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
)

type driver struct{ *drivers.BaseDriver }

var errSimulated = errors.New("machines of this driver are simulated")

func (driver) DriverName() string { return "sim" }

func (driver) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "sim-size", Usage: "Size of the machine", Value: "small"},
		mcnflag.IntFlag{Name: "sim-disk", Usage: "Disk in gigabytes", Value: 20},
		mcnflag.BoolFlag{Name: "sim-fast", Usage: "A fast machine"},
		mcnflag.StringSliceFlag{Name: "sim-tag", Usage: "Tags of the machine"},
		mcnflag.StringFlag{Name: "sim-userdata", Usage: "Path of a file with user data"},
	}
}

func (driver) SetConfigFromFlags(drivers.DriverOptions) error { return nil }
func (driver) GetSSHHostname() (string, error)                { return "", errSimulated }
func (driver) GetURL() (string, error)                        { return "", errSimulated }
func (driver) GetState() (state.State, error)                 { return state.None, errSimulated }
func (driver) Create() error                                  { return errSimulated }
func (driver) Remove() error                                  { return errSimulated }
func (driver) Start() error                                   { return errSimulated }
func (driver) Stop() error                                    { return errSimulated }
func (driver) Restart() error                                 { return errSimulated }
func (driver) Kill() error                                    { return errSimulated }

func main() { plugin.RegisterDriver(driver{&drivers.BaseDriver{}}) }
