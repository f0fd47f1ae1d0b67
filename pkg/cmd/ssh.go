package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/machinessh"
)

// flagAnyHostKey is named like the flag with which kubectl accepts any certificate.
const flagAnyHostKey = "insecure-skip-host-key-check"

// sshOptions are the flags of drover ssh.
type sshOptions struct {
	inspectOptions
	user, address string
	port          uint16
	tty, anyKey   bool
	// dial overrides the connection in tests.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func newSSHCommand(environ []string, o *sshOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh MACHINE [-- COMMAND...]",
		Short: "Open a shell on the host of a machine, or run a command there",
		Long: `Open a shell on the host of a machine by SSH, or run a command there. The key is the one that the
node driver made when it created the host. The command connects from this computer.

MACHINE is the name of a Machine. CLUSTER/NODE means the Machine of a node.

The command verifies the host: it must have one of the keys that its node agent has reported. A node
agent of Rancher, or of a former release of Drover, reports none. The command then refuses to
connect, unless you set --insecure-skip-host-key-check.

Without a command, you get the user's shell. It has a terminal if this command has one. The words of
a command are joined with spaces, and the user's shell on the host runs them, as with ssh.

The command reads with your permissions: the Machine, and in its namespace the Secrets
MACHINE-machine-state, with the key, and MACHINE-machine-plan, with the keys of the host. Drover has
no key of a host that you added yourself.

Exit codes: the exit code of the command; 128 and the number of the signal that ended it; 255 if the
connection fails.`,
		Example: `  # a shell
  drover ssh demo-workers-x7k2p

  # one command, and its output
  drover ssh demo-workers-x7k2p -- journalctl -u rke2-agent -n 100 > agent.log

  # follow the log of the node agent of a node, with a terminal
  drover ssh demo/node-1 -t -- sudo journalctl -fu rancher-system-agent`,
		Args:              takesCommand("MACHINE"),
		ValidArgsFunction: completing(environ, o.machineNames),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(managementFlags(cmd.Flags()), environ)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := o.run(cmd, environ, args[0], strings.Join(args[1:], " "))
			if err != nil {
				cmd.PrintErrln(cmd.ErrPrefix(), err)
			}
			if code == 0 {
				return nil
			}
			cmd.SilenceErrors = true
			return exitError(code)
		},
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	o.addNamespace(cmd, environ)
	f := cmd.Flags()
	f.StringVarP(&o.user, "user", "l", "", "`user` on the host (default the user of the driver)")
	f.StringVar(&o.address, "address", "", "`address` of the host (default the addresses that the driver has recorded)")
	f.Uint16VarP(&o.port, "port", "p", 0, "`port` of the host's SSH server (default the port of the driver)")
	f.BoolVarP(&o.tty, "tty", "t", false, "make a terminal for the command, too")
	f.BoolVar(&o.anyKey, flagAnyHostKey, false,
		"connect to any host that answers, even if it is not the host of the machine")
	return cmd
}

// takesCommand requires one argument, and accepts a command after --.
func takesCommand(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before := cmd.ArgsLenAtDash()
		if before < 0 {
			before = len(args)
		}
		err := takes(name)(cmd, args[:before])
		if before > 1 && before == len(args) {
			err = seeHelp(cmd, fmt.Errorf("unexpected argument %q; write -- before a command", args[1]))
		}
		return err
	}
}

// managementFlags are the flags that the environment may set. A variable must not change the host of a connection, or
// how it is verified.
func managementFlags(all *pflag.FlagSet) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"kubeconfig", "context", "namespace"} {
		flags.AddFlag(all.Lookup(name))
	}
	return flags
}

// run connects, and returns the exit code of the command.
func (o *sshOptions) run(cmd *cobra.Command, environ []string, machine, command string) (code int, err error) {
	ctx := cmd.Context()
	host, err := o.host(ctx, cmd, machine)
	if err != nil {
		return machinessh.ExitFailed, err
	}
	client, err := machinessh.Connect(ctx, *host)
	if errors.Is(err, machinessh.ErrNoHostKeys) {
		err = fmt.Errorf("%w; agents of Rancher and of former releases of Drover report none. "+
			"--%s connects to any host that answers", err, flagAnyHostKey)
	}
	if err != nil {
		return machinessh.ExitFailed, fmt.Errorf("machine %s: %w", machine, err)
	}
	defer func() { _ = client.Close() }()
	run := machinessh.Run{Command: command, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
	kind, _ := variable(environ, "TERM")
	terminal := machinessh.TerminalOf(run.In, run.Out, kind)
	if o.tty && terminal == nil {
		cmd.PrintErrln("The command gets no terminal: the input or the output of drover ssh is no terminal")
	}
	if o.tty || command == "" {
		run.Terminal = terminal
	}
	return machinessh.Do(ctx, client, run)
}

// host returns the host of a machine, with the flags applied.
func (o *sshOptions) host(ctx context.Context, cmd *cobra.Command, machine string) (*machinessh.Host, error) {
	r, err := o.plainReader(ctx, o.inNamespace())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	found, err := r.Host(ctx, machine)
	if err != nil {
		return nil, err
	}
	if found.Unread != nil && !o.anyKey {
		return nil, fmt.Errorf("%w; --%s connects to any host that answers", found.Unread, flagAnyHostKey)
	}
	host := &machinessh.Host{
		Addresses: found.Addresses, User: cmp.Or(o.user, found.User), Port: cmp.Or(int(o.port), found.Port),
		Key: found.Key, Keys: found.Keys, AnyKey: o.anyKey, Dial: o.dial,
		Warn: func(line string) { cmd.PrintErrln("Warning:", line) },
	}
	if o.address != "" {
		host.Addresses = []string{o.address}
	}
	return host, nil
}

// machineNames completes the name of a machine.
func (o *sshOptions) machineNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.suggest(cmd, (*inspect.Reader).MachineNames)
}
