package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/supportbundle"
)

// bundleOptions are the flags of drover support-bundle in addition to inspectOptions.
type bundleOptions struct {
	*inspectOptions
	all bool
}

func newSupportBundleCommand(environ []string, o *inspectOptions) *cobra.Command {
	b := &bundleOptions{inspectOptions: o}
	cmd := &cobra.Command{
		Use:   "support-bundle (CLUSTER... | --all)",
		Short: "Pack everything that is needed to analyze a problem remotely into one file",
		Long: `Pack everything that is needed to analyze a problem of clusters into one archive:

  * all objects of the clusters, and their Events
  * what the nodes have to do, and what they have reported
  * the output of drover diagnose and drover explain
  * Drover's lease, settings, logs and metrics
  * the versions of everything

The archive contains no secrets. Of Secrets and ConfigMaps, it has only keys and sizes. It omits
user data, variables, chart values, manifests and contents of files on nodes. The command removes
passwords, tokens and keys from everything else, wherever it finds them.

Names, addresses and hosts stay, so read the file before you share it. README.txt in the archive
describes its content.

Exit codes: 0 the file is written, even if some content could not be read; 1 an error, and no file
is written.

The command reads with your permissions. It writes only the file, which only you can read.
unread.txt in the archive lists what you may not read.`,
		Example: `  # pack one cluster
  drover support-bundle demo

  # pack all clusters of a namespace, into a file named after it
  drover support-bundle --all -n team-a -o /tmp/team-a.tar.gz

  # read a file of the archive
  tar -xzOf drover-support-bundle.tar.gz drover-support-bundle/diagnosis/fleet-default-demo.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if b.all == (len(args) > 0) {
				return seeHelp(cmd, errors.New("name clusters, or give --all"))
			}
			return nil
		},
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fillFromEnvironment(cmd.Flags(), environ); err != nil {
				return err
			}
			o.given = o.override(cmd.Flags().Changed)
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return b.run(cmd, args) },
	}
	o.addFlags(cmd, environ)
	f := cmd.Flags()
	// Here -o is the file, as for tar and other programs that write one.
	f.StringVarP(&o.output, "output", "o", "drover-support-bundle.tar.gz",
		"`file` to write, a tar archive packed with gzip; - writes to standard output")
	f.BoolVar(&b.all, "all", false, "pack all clusters: those of --namespace, or of all namespaces without that flag")
	return cmd
}

func (o *bundleOptions) run(cmd *cobra.Command, names []string) error {
	clusters, err := o.chosen(cmd.Context(), names)
	if err != nil {
		return err
	}
	options, err := o.forReader(cmd.Context())
	if err != nil {
		return err
	}
	files, err := inspect.SupportBundle(cmd.Context(), options, clusters)
	if err != nil {
		return err
	}
	if err := o.write(cmd.OutOrStdout(), files); err != nil {
		return err
	}
	if o.output != "-" {
		cmd.PrintErrf("%s: %d files; look through it before you give it away\n", o.output, len(files))
	}
	return nil
}

// chosen returns the clusters, without duplicates.
func (o *bundleOptions) chosen(ctx context.Context, names []string) ([]supportbundle.Cluster, error) {
	r, err := o.reader(ctx, o.inNamespace())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if o.all {
		return r.Clusters(o.namespace)
	}
	var out []supportbundle.Cluster
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if _, err := r.Cluster(name); err != nil {
			return nil, err
		}
		out = append(out, supportbundle.Cluster{Namespace: o.inNamespace(), Name: name})
	}
	return out, nil
}

// write packs the files. It removes an incomplete file.
func (o *bundleOptions) write(stdout io.Writer, files []supportbundle.File) error {
	if o.output == "-" {
		return supportbundle.Pack(stdout, files, time.Now())
	}
	file, err := os.OpenFile(o.output, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if err := errors.Join(file.Chmod(0o600), supportbundle.Pack(file, files, time.Now()), file.Close()); err != nil {
		os.Remove(o.output)
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}
