package cmd

import (
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/operate/airgap"
)

// serverImage is the repository of Drover's image in the chart.
const serverImage = "drover-io/drover"

func newImagesCommand(environ []string) *cobra.Command {
	o, s := &inspectOptions{formats: []string{outputText, outputJSON, outputYAML}},
		airgap.Options{ServerArchitecture: runtime.GOARCH}
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images and files for an installation without internet access",
		Long: `List what an installation without internet access needs:

  * the images of Drover
  * the installer images of Kubernetes versions
  * where a distribution lists the images that a release needs
  * the files that the server serves to machines

The names are those that Drover and the nodes will request. With --system-default-registry, the
images are in that registry. The command sends no requests and downloads nothing.

Use the program of the server that you install, so that its version is right. docs/air-gap.md
describes how to bring everything along.

Exit codes: 0 the list is printed; 1 an error, such as an invalid version.

-o json and -o yaml print a list of the type Item of package pkg/operate/airgap.`,
		Example: `  # what does a cluster of RKE2 v1.36.2 need?
  drover images --kubernetes-version v1.36.2+rke2r1

  # print only the images, for a program that copies them
  drover images --kubernetes-version v1.36.2+rke2r1 | awk '$1 == "image" { print $2 }'`,
		Args: takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd, environ); err != nil {
				return err
			}
			return checkRegistry(s.Settings.SystemDefaultRegistry)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := airgap.Items(s)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), items, func(w io.Writer) {
				for _, item := range items {
					row(w, string(item.Type), item.Name, item.For)
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&s.KubernetesVersions, "kubernetes-version", nil,
		"Kubernetes `versions` of the clusters, for example v1.36.2+rke2r1")
	f.StringSliceVar(&s.Architectures, "arch", []string{runtime.GOARCH}, "`architectures` of the nodes: amd64, arm64")
	f.StringVar(&s.ServerImage, "server-image", serverImage+":"+Version, "`image` of Drover, as the chart names it")
	f.StringVar(&s.Settings.ClusterAgentImage, "cluster-agent-image", "",
		"`image` of the agent inside clusters, as for the server; empty uses --server-image")
	f.StringVar(&s.Settings.SystemDefaultRegistry, flagRegistry, "",
		"`registry` for images of clusters that name no registry, as for the server")
	f.StringVar(&s.Settings.MachineProvisionImage, "machine-provision-image", controllers.DefaultMachineProvisionImage,
		"`image` of rancher-machine, as for the server")
	f.StringVar(&s.Settings.SystemAgentInstallerImage, flagInstallerImage, "",
		"`prefix` of the distributions' installer images, as for the server")
	o.addOutput(cmd)
	_ = cmd.RegisterFlagCompletionFunc("arch",
		cobra.FixedCompletions(airgap.Architectures(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
