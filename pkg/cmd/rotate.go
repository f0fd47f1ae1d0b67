package cmd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func newRotateCommand(environ []string, o *inspectOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Rotate certificates and encryption keys of clusters",
		Long:  `Rotate certificates and encryption keys of clusters.`,
	}
	cmd.AddCommand(newRotateCertificatesCommand(environ, o), newRotateKeysCommand(environ, o))
	return cmd
}

func newRotateCertificatesCommand(environ []string, o *inspectOptions) *cobra.Command {
	var services []string
	t := &operationOptions{inspectOptions: o}
	cmd := t.command(environ, &cobra.Command{
		Use:   "certificates CLUSTER",
		Short: "Rotate the certificates of a cluster",
		Long: `Rotate the certificates of a cluster, all of them or those of some services. Machines restart one
after the other, those with etcd first. Each machine with etcd restarts only after it has verified
that etcd is healthy. Machines without any of the services do not restart.

` + helpOfAsking,
		Example: `  # which machines would restart?
  drover rotate certificates demo --dry-run

  # rotate all of them, and wait until every machine has new ones
  drover rotate certificates demo --wait

  # rotate those of two services
  drover rotate certificates demo --service api-server --service kubelet`,
	}, func(cmd *cobra.Command, _ []string) (order, error) {
		err := checkServices(services, cmd.Flags().Changed("service"))
		return order{Kind: planner.CertificatesOperation, Wish: wish{Services: services}}, err
	})
	cmd.Flags().StringSliceVar(&services, "service", nil,
		"`names` of the services whose certificates to rotate, as for the distribution's certificate rotate; "+
			"without the flag, all services")
	_ = cmd.RegisterFlagCompletionFunc("service", cobra.FixedCompletions(render.CertificateServices(),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// checkServices refuses unknown services, because their rotation would succeed at once and rotate nothing. It also
// refuses an empty list, for example from an empty variable, because that does not mean all services.
func checkServices(services []string, given bool) error {
	if given && len(services) == 0 {
		return errors.New(
			"--service: it names no service, and nothing was asked for; without the flag, and without " +
				"DROVER_SERVICE, all certificates are new")
	}
	known := render.CertificateServices()
	for _, service := range services {
		if !slices.Contains(known, service) {
			return fmt.Errorf("--service: %q is unknown; use %s", service, anyOf(known))
		}
	}
	return nil
}

func newRotateKeysCommand(environ []string, o *inspectOptions) *cobra.Command {
	t := &operationOptions{inspectOptions: o}
	return t.command(environ, &cobra.Command{
		Use:   "encryption-keys CLUSTER",
		Short: "Rotate the key that encrypts a cluster's Secrets",
		Long: `Rotate the key that encrypts the Secrets of a cluster in etcd. The cluster creates a new key and
writes all Secrets again with it. Servers restart one after the other, three times.

Take a snapshot first. You need it if the rotation stops halfway. The request waits until condition
Ready of the RKEControlPlane is True. It fails at once if the version cannot rotate keys, according
to the release data.

` + helpOfAsking,
		Example: `  drover snapshot take demo --wait && drover rotate encryption-keys demo --wait`,
	}, withoutParameters(planner.KeysOperation))
}
