package agent

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// ProgramName is the name of the installed agent on a node. The server's binary is also the agent: under this name it
// runs as the agent (see IsAgent).
const ProgramName = "rancher-system-agent"

// Environment variables of the agent. Service units of all releases set them.
const (
	envConfig       = "CATTLE_AGENT_CONFIG"
	envLogLevel     = "CATTLE_LOGLEVEL"
	envStrictVerify = "CATTLE_AGENT_STRICT_VERIFY"
)

// IsAgent reports whether the program was started as the agent. argv0 is the first element of its arguments. Suffixes
// are allowed because downloads have names such as rancher-system-agent-amd64.
func IsAgent(argv0 string) bool {
	return strings.HasPrefix(filepath.Base(argv0), ProgramName)
}

// CommandOptions are the command's dependencies.
type CommandOptions struct {
	// Version is printed by --version.
	Version string
	// Environ is the environment of the process, as K=V. Instructions of plans inherit it.
	Environ []string
	// LogOutput receives the log. The default is the command's standard error stream.
	LogOutput io.Writer
}

// NewCommand returns the agent's command line: `agent sentinel`, `agent validate-config FILE`, `agent
// validate-connection FILE` and `agent --version`. A program for which IsAgent is true runs it as its root command.
func NewCommand(o CommandOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Apply the plans of a Drover server to this machine",
		Long: "Run the node agent, or check its files. The agent watches the plan Secret of this machine " +
			"and\napplies the plan. Started as " + ProgramName + ", the program is only the node agent.",
		Version:       o.Version,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: false,
	}
	cmd.SetVersionTemplate(ProgramName + " version {{.Version}}\n")
	cmd.AddCommand(
		&cobra.Command{
			Use: "sentinel", Short: "Watch for plans and apply them until SIGTERM or SIGINT", Args: cobra.NoArgs,
			SilenceUsage: true,
			RunE:         func(cmd *cobra.Command, _ []string) error { return sentinel(cmd, o) },
		},
		&cobra.Command{
			Use: "validate-config FILE", Short: "Check a configuration file", Args: oneFile, SilenceUsage: true,
			RunE: func(_ *cobra.Command, args []string) error {
				_, err := LoadConfig(args[0])
				return err
			},
		},
		&cobra.Command{
			Use: "validate-connection FILE", Short: "Check a connection file", Args: oneFile, SilenceUsage: true,
			RunE: func(_ *cobra.Command, args []string) error { return ValidateConnection(args[0]) },
		},
		setConnectionCommand(),
	)
	return cmd
}

// oneFile requires exactly one file name.
func oneFile(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("FILE is missing; see '%s --help'", cmd.CommandPath())
	case 1:
		return nil
	}
	return fmt.Errorf("unexpected argument %q; see '%s --help'", args[1], cmd.CommandPath())
}

// unknownCommand refuses unknown commands. By default cobra prints help and exits with success, so a service with a
// misspelled command would look successful.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q; see '%s --help'", args[0], cmd.CommandPath(), cmd.CommandPath())
}

func sentinel(cmd *cobra.Command, o CommandOptions) error {
	out := o.LogOutput
	if out == nil {
		out = cmd.ErrOrStderr()
	}
	log, err := newLogger(out, variable(o.Environ, envLogLevel))
	if err != nil {
		return err
	}
	path := variable(o.Environ, envConfig)
	if path == "" {
		path = DefaultConfigFile
	}
	config, err := LoadConfig(path)
	if err != nil {
		return err
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.WithField("version", o.Version).Info("Starting node agent")
	return Run(ctx, Options{
		Config: config, Version: o.Version, Environ: o.Environ, Log: log,
		RequireCA: strings.EqualFold(variable(o.Environ, envStrictVerify), "true"),
	})
}

func newLogger(out io.Writer, level string) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(out)
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	if level == "" {
		return log, nil
	}
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("%s must be a log level such as info or debug", envLogLevel)
	}
	log.SetLevel(parsed)
	return log, nil
}
