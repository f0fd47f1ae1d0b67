package cmd

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/local/driverprogram"
)

// nodeDriverOptions are the flags of drover node-driver.
type nodeDriverOptions struct {
	source            driverprogram.Source
	directory, result string
}

// newNodeDriverCommand returns the commands of the Job that asks a node driver for its flags. They are hidden, because
// only Drover's controllers run them.
func newNodeDriverCommand(environ []string) *cobra.Command {
	o := &nodeDriverOptions{}
	cmd := &cobra.Command{
		Use: "node-driver", Hidden: true,
		Short: "Download a node driver and ask it for its flags, in a Job of Drover",
	}
	cmd.PersistentFlags().StringVar(&o.directory, "directory", driverjob.Directory, "`folder` of the driver")
	cmd.PersistentFlags().StringVar(&o.result, "result-file", "/dev/termination-log",
		"`file` for the result or the error")
	download := &cobra.Command{
		Use: "download", Short: "Download a driver, verify it and unpack it", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.source.Authorities, _ = variable(environ, driverjob.AuthoritiesVariable)
			return o.report(cmd.Context(), func(ctx context.Context) (string, error) {
				found, err := driverprogram.Download(ctx, o.source, o.directory)
				return found.Encode(), err
			})
		},
	}
	download.Flags().StringVar(&o.source.URL, "url", "", "`URL` of the driver")
	download.Flags().StringVar(&o.source.Checksum, "checksum", "", "`checksum` of the download, in hexadecimal")
	flags := &cobra.Command{
		Use: "flags", Short: "Run a driver and report its flags", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.report(cmd.Context(), func(ctx context.Context) (string, error) {
				found, err := driverprogram.Flags(ctx, o.directory)
				if err != nil {
					return "", err
				}
				return driverjob.EncodeFlags(found)
			})
		},
	}
	cmd.AddCommand(download, flags)
	return cmd
}

// report writes the result, or the error, to the file of the termination message.
func (o *nodeDriverOptions) report(ctx context.Context, run func(context.Context) (string, error)) error {
	message, err := run(ctx)
	if err != nil {
		message = err.Error()
	}
	if writeErr := os.WriteFile(o.result, []byte(message), 0o600); writeErr != nil && err == nil {
		return fmt.Errorf("write the result: %w", writeErr)
	}
	return err
}
