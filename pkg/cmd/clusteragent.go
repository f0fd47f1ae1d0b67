package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/reach/clusteragent"
)

// clusterAgentOptions are the flags of drover cluster-agent.
type clusterAgentOptions struct {
	clusteragent.Options
	smallProgram
}

func newClusterAgentCommand(environ []string) *cobra.Command {
	o := &clusterAgentOptions{}
	cmd := &cobra.Command{
		Use:   "cluster-agent",
		Short: "Run the agent that connects its cluster to Drover",
		Long: `Run the agent inside a cluster. The agent opens connections to every replica of Drover's server,
and answers the requests that arrive through them. It adds its own credential and passes each
request on to the cluster's API server. The credential never leaves the cluster. Each request names
the user that makes it, and the cluster decides by that user's permissions. The cluster needs no
incoming connections.

The manifest that ` + "`GET /v3/import/…`" + ` serves runs this command. From that manifest, the agent reads
CATTLE_SERVER and CATTLE_CA_CHECKSUM in the environment, and files in ` + clustermanifest.CredentialPath + `.
Flags and DROVER_ variables override them.`,
		Example: `  # run the agent outside a pod, to try it
  drover cluster-agent --server-url https://drover.example.com --token-file token --ca-file ca.crt \
    --api-server https://127.0.0.1:6443 --api-server-ca-file server-ca.crt --api-server-token-file account-token`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fillFromEnvironment(cmd.Flags(), environ); err != nil {
				return err
			}
			return o.fromManifest(environ, clustermanifest.CredentialPath)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd, environ, func(ctx context.Context, log logrus.FieldLogger) error {
				o.Version, o.Log = Version, log
				return clusteragent.Run(ctx, o.Options)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ServerURL, "server-url", "", "`URL` of Drover's server (default CATTLE_SERVER, or the file "+
		clustermanifest.CredentialPath+"/url)")
	f.StringVar(&o.TokenFile, "token-file", clustermanifest.CredentialPath+"/token",
		"`file` with the registration token, which the agent reads for each connection")
	f.StringVar(&o.CAFile, "ca-file", "", "`file` with the authorities of the server's certificate")
	f.StringVar(&o.CAChecksum, "ca-checksum", "",
		"`SHA-256` of the authorities that the server publishes (default CATTLE_CA_CHECKSUM); without it and "+
			"--ca-file, the agent trusts the system's authorities")
	f.StringVar(&o.APIServer, "api-server", "",
		"`URL` of the cluster's API server (default from the pod's environment)")
	f.StringVar(&o.APIServerCAFile, "api-server-ca-file", "",
		"`file` with the authorities of the API server (default those of the pod's service account)")
	f.StringVar(&o.APIServerTokenFile, "api-server-token-file", "",
		"`file` with the agent's credential (default that of the pod's service account)")
	f.StringVar(&o.HealthAddress, "health-address", ":8080",
		"`address` of /healthz and /readyz, or unix: and the path of a socket; empty disables them")
	o.addTo(cmd)
	cmd.AddCommand(newClusterAgentReadyCommand(environ))
	return cmd
}

// newClusterAgentReadyCommand returns the readiness command that the kubelet runs if it cannot probe the agent
// directly.
func newClusterAgentReadyCommand(environ []string) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Check whether the agent in the same pod is connected",
		Long: `Check whether the agent in the same pod is connected to Drover's server.

Exit codes: 0 the agent is connected; 1 it is not, or an error.`,
		Example: `  drover cluster-agent ready --health-address unix:/run/drover/health.sock`,
		Args:    takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 4*time.Second)
			defer cancel()
			return clusteragent.Ready(ctx, address)
		},
	}
	cmd.Flags().StringVar(&address, "health-address", "127.0.0.1:8080",
		"`address` of the agent's /readyz, or unix: and the path of a socket")
	return cmd
}

// fromManifest fills options without a flag from the environment and the files of the agent's manifest.
func (o *clusterAgentOptions) fromManifest(environ []string, folder string) error {
	variables := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		variables[name] = value
	}
	for _, source := range []struct {
		into  *string
		value string
	}{
		{&o.ServerURL, variables["CATTLE_SERVER"]},
		{&o.CAChecksum, variables["CATTLE_CA_CHECKSUM"]},
		{&o.APIServer, clusteragent.InCluster(variables["KUBERNETES_SERVICE_HOST"],
			variables["KUBERNETES_SERVICE_PORT"])},
	} {
		if *source.into == "" {
			*source.into = source.value
		}
	}
	if o.ServerURL == "" {
		content, err := os.ReadFile(filepath.Join(folder, "url"))
		if err != nil {
			return fmt.Errorf(
				"--server-url: is required, because CATTLE_SERVER and the manifest's credential have no URL: %w", err)
		}
		o.ServerURL = strings.TrimSpace(string(content))
	}
	if o.APIServer == "" {
		return errors.New("--api-server: is required outside a pod, as https://HOST:PORT")
	}
	return nil
}
