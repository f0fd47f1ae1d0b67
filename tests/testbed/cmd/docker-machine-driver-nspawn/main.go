// Command docker-machine-driver-nspawn is the lab's node driver as a plugin of rancher/machine.
package main

import (
	"github.com/rancher/machine/libmachine/drivers/plugin"

	"github.com/drover-io/drover/tests/testbed/nspawn"
)

func main() { plugin.RegisterDriver(nspawn.New("", "")) }
