// Package cmd is the command line. It converts flags, environment and configuration file to the values that package
// server takes. No other package reads them.
package cmd

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/agent"
)

// Version of the program. The build sets it.
var Version = "dev"

// Main runs the program and returns its exit code: 0 for success, 1 otherwise. The help of a command describes its
// other exit codes.
func Main(ctx context.Context, args, environ []string) int {
	return execute(ctx, rootFor(args[0], environ), args[1:]) //nolint:contextcheck // commands get their context when they are executed
}

// pluginName is the name under which kubectl finds the program in PATH, and runs it as kubectl drover.
const pluginName = "kubectl-drover"

// rootFor returns the command line for the name under which the program was started. On a host, the program is
// installed only as the agent. There, ping checks whether the host can use the server.
func rootFor(name string, environ []string) *cobra.Command {
	if !agent.IsAgent(name) {
		root := NewCommand(environ)
		if filepath.Base(name) == pluginName {
			root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drover"}
		}
		return root
	}
	root, ping := agent.NewCommand(agent.CommandOptions{Version: Version, Environ: environ}), newPingCommand()
	root.Use, ping.Example = agent.ProgramName, strings.ReplaceAll(ping.Example, "drover ping", agent.ProgramName+
		" ping")
	root.AddCommand(ping)
	return root
}

// execute runs a command line. It refuses an unknown word after a command that only groups others. cobra would print
// help instead, for example for its own command completion.
func execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.InitDefaultCompletionCmd(args...)
	for _, cmd := range root.Commands() {
		if !cmd.Runnable() {
			cmd.Args, cmd.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	root.SetFlagErrorFunc(seeHelp)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if err != nil {
		return 1
	}
	return 0
}

// NewCommand returns the program's command line. environ fills in flags. Main executes it.
func NewCommand(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "drover",
		Short: "Provision and manage RKE2 and K3s clusters on Cluster API",
		Long: `Drover provisions RKE2 and K3s clusters on Cluster API and keeps managing them. It turns one
Cluster object into machines, nodes and a Kubernetes API. Every later change is a plan for the same
machines.`,
		SilenceUsage: true,
		Version:      Version,
	}
	root.SetVersionTemplate("drover {{.Version}}\n")
	root.AddCommand(
		newServerCommand(environ),
		newPingCommand(),
		newStatusCommand(environ, &inspectOptions{}),
		newDiagnoseCommand(environ, &inspectOptions{}),
		newExplainCommand(environ, &inspectOptions{}),
		newLogsCommand(environ, &inspectOptions{}),
		newSSHCommand(environ, &sshOptions{}),
		newUICommand(environ, &uiOptions{}),
		newClusterAgentCommand(environ),
		newClusterAuthCommand(environ),
		newImagesCommand(environ),
		newKubeconfigCommand(environ, &kubeconfigOptions{}),
		newTokenCommand(environ, &tokenOptions{}),
		newPreviewCommand(environ, &inspectOptions{}),
		newCreateCommand(environ),
		newScaleCommand(environ, &inspectOptions{}),
		newDeleteCommand(environ, &inspectOptions{}),
		newRollCommand(environ, &inspectOptions{}),
		newUpgradeCommand(environ),
		newSnapshotCommand(environ, &inspectOptions{}),
		newRotateCommand(environ, &inspectOptions{}),
		newSupportBundleCommand(environ, &inspectOptions{}),
		newAdoptCommand(environ, &inspectOptions{}),
		newBackupCommand(environ, &backupOptions{}),
		newRestoreCommand(environ, &backupOptions{}),
		agent.NewCommand(agent.CommandOptions{Version: Version, Environ: environ}),
		newNodeDriverCommand(environ),
		newCredentialCheckCommand(environ),
		newVersionCommand(),
	)
	return root
}
