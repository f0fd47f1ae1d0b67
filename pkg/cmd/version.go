package cmd

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// versionReport is the output of drover version for programs.
type versionReport struct {
	Version string `json:"version"`
	// GoVersion is the compiler's version. Platform is the operating system and architecture of the build.
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	o := &inspectOptions{formats: []string{outputText, outputJSON, outputYAML}}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of this program, as drover --version does.

-o json and -o yaml add the version of Go and the platform of the build.`,
		Example: `  drover version -o json | jq -r .version`,
		Args:    takes(),
		// Without the environment: an output format for other commands must not break this one.
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, nil) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := versionReport{Version: Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" +
				runtime.GOARCH}
			return o.print(cmd.OutOrStdout(), report, func(w io.Writer) { _, _ = fmt.Fprintln(w, "drover", Version) })
		},
	}
	o.addOutput(cmd)
	return cmd
}
