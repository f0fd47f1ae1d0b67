package cmd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/local/credentialcheck"
)

// checkLasts bounds the check of a credential, with all repetitions.
const checkLasts = 2 * time.Minute

// newCredentialCheckCommand returns the command of the Job that checks a cloud credential. It is hidden, because only
// Drover's controllers run it.
func newCredentialCheckCommand(environ []string) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: credentialjob.Command, Hidden: true, Args: takes(),
		Short: "Ask a cloud whether it accepts a credential, in a Job of Drover",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), checkLasts)
			defer cancel()
			text, _ := variable(environ, credentialjob.Variable)
			question, err := credentialjob.DecodeQuestion(text)
			if err != nil {
				return err
			}
			if err := os.WriteFile(file, []byte(credentialcheck.Check(ctx, question).Encode()), 0o600); err != nil {
				return fmt.Errorf("write the result: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "result-file", "/dev/termination-log", "`file` for the result")
	return cmd
}
