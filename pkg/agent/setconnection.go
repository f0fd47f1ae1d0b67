package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// setConnectionCommand is for the upgrade of the agent: the server's address or its authority may have changed since
// the machine was connected.
func setConnectionCommand() *cobra.Command {
	var server, authority, out string
	cmd := &cobra.Command{
		Use: "set-connection FILE", Short: "Write a connection file for another server address or authority",
		Args: oneFile, SilenceUsage: true, Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return setConnection(args[0], server, authority, out)
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the server")
	cmd.Flags().StringVar(&authority, "authority", "", "`file` with the server's authority; empty for the system's")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write")
	return cmd
}

// readAuthority reads the file of an authority. Without a file it is empty.
func readAuthority(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	ca, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	return ca, nil
}

// setConnection copies a connection file with another server and authority. It copies the bytes of a file that has
// these already.
func setConnection(path, server, authority, out string) error {
	info, err := LoadConnection(path)
	if err != nil {
		return err
	}
	ca, err := readAuthority(authority)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load([]byte(info.KubeConfig))
	if err != nil || len(config.Clusters) != 1 {
		return errors.New("kubeConfig of the connection file must be a kubeconfig with one cluster")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read connection file: %w", err)
	}
	for _, cluster := range config.Clusters {
		if !leadsTo(cluster, server, ca) {
			cluster.Server, cluster.CertificateAuthorityData = server, ca
			content = nil
		}
	}
	if content == nil {
		text, err := clientcmd.Write(*config)
		if err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		info.KubeConfig = string(text)
		content, err = json.Marshal(info)
		if err != nil {
			return fmt.Errorf("encode connection file: %w", err)
		}
	}
	if err := replaceFile(out, content, 0o600, -1, -1); err != nil {
		return fmt.Errorf("write connection file: %w", err)
	}
	return nil
}

// leadsTo reports that a cluster of a kubeconfig has this server and authority.
func leadsTo(cluster *clientcmdapi.Cluster, server string, ca []byte) bool {
	return cluster.Server == server &&
		bytes.Equal(bytes.TrimSpace(cluster.CertificateAuthorityData), bytes.TrimSpace(ca))
}
