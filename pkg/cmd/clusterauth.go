package cmd

import (
	"context"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/reach/endpointauth"
)

// clusterAuthOptions are the flags of drover cluster-auth.
type clusterAuthOptions struct {
	endpointauth.Options
	smallProgram
}

func newClusterAuthCommand(environ []string) *cobra.Command {
	o := &clusterAuthOptions{}
	cmd := &cobra.Command{
		Use:   "cluster-auth",
		Short: "Review tokens for the authorized endpoint of a cluster",
		Long: `Review tokens for the authorized endpoint of a cluster. The command answers the TokenReviews of the
API server on the same host with the user of each token. It verifies tokens with the public keys in
a file, and reads the file again when it has changed. For this it needs neither a credential nor
Drover's server.

Drover installs it on the servers of clusters whose spec.localClusterAuthEndpoint is enabled.`,
		Example: `  drover cluster-auth --address 127.0.0.1:6440 --trust-file trust.json`,
		Args:    takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd, environ, func(ctx context.Context, log logrus.FieldLogger) error {
				o.Log = log
				return endpointauth.Run(ctx, o.Options)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Address, "address", "localhost:6440",
		"loopback `address` to listen on, which the API server's --authentication-token-webhook-config-file names")
	f.StringVar(&o.TrustFile, "trust-file", "/etc/drover/cluster-auth/trust.json",
		"`file` with the public keys of the cluster's tokens")
	o.addTo(cmd)
	return cmd
}
