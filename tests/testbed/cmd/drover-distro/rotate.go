package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// dataDirFlag adds the flag for the data folder, with a default from the environment, for commands that do not read the
// configuration.
func dataDirFlag(group *cobra.Command, runtime distro.Runtime) *string {
	return group.PersistentFlags().StringP("data-dir", "d", os.Getenv(strings.ToUpper(string(runtime))+"_DATA_DIR"),
		"folder of the node's data")
}

// certificateCommand is "certificate" with the subcommand "rotate".
func certificateCommand(runtime distro.Runtime) *cobra.Command {
	group := &cobra.Command{Use: "certificate", Short: "Manage the node's certificates"}
	var services []string
	dataDir := dataDirFlag(group, runtime)
	rotate := &cobra.Command{
		Use: "rotate", Short: "Move certificates aside, so that the next start issues new ones", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return distro.RotateCertificates(runtime, *dataDir, services, cmd.OutOrStdout())
		},
	}
	rotate.Flags().StringSliceVarP(&services, "service", "s", nil,
		"service to rotate certificates of, all if none is named")
	group.AddCommand(rotate)
	return group
}

// secretsEncryptCommand is "secrets-encrypt" with the steps of a key rotation.
func secretsEncryptCommand(runtime distro.Runtime) *cobra.Command {
	group := &cobra.Command{Use: "secrets-encrypt",
		Short: "Control the encryption of Secrets and the rotation of its keys"}
	dataDir := dataDirFlag(group, runtime)
	for use, short := range map[string]string{
		"status":    "Print the status of secrets encryption",
		"prepare":   "Add a new key",
		"rotate":    "Make the new key the one to write with",
		"reencrypt": "Write all Secrets with the new key, and remove the old one",
	} {
		group.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return distro.SecretsEncrypt(cmd.Context(), runtime, *dataDir, use, cmd.OutOrStdout())
			}})
	}
	return group
}
