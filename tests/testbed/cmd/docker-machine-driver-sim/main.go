// Command docker-machine-driver-sim is the node driver of simulated machines as a plugin of rancher/machine.
package main

import (
	"github.com/rancher/machine/libmachine/drivers/plugin"

	"github.com/drover-io/drover/tests/testbed/simdriver"
)

func main() { plugin.RegisterDriver(simdriver.New("", "")) }
