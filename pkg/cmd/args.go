package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// takes accepts arguments of these names, all of them, and names the one that is missing or too many.
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

// mayTake accepts an argument of that name, or none.
func mayTake(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return takes(name)(cmd, args)
	}
}

// seeHelp adds to a mistake in a command line where it is told how to write one.
func seeHelp(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
}
