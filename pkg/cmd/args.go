package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// takes requires exactly the named arguments. An error names the argument that is missing or unexpected.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return seeHelp(cmd, errors.New(names[len(args)]+" is missing"))
		case len(args) > len(names):
			return seeHelp(cmd, fmt.Errorf("unexpected argument %q", args[len(names)]))
		}
		return nil
	}
}

// mayTake accepts one optional argument.
func mayTake(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return takes(name)(cmd, args)
	}
}

// seeHelp adds a reference to --help to an error in the command line.
func seeHelp(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
}
