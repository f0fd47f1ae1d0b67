// Command drover provisions and manages RKE2 and K3s clusters on Cluster API. The same program is the node agent when
// it is started under the agent's name.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-io/drover/pkg/cmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := cmd.Main(ctx, os.Args, os.Environ())
	stop()
	os.Exit(code)
}
