package docs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/drover-io/drover/pkg/cmd"
)

var update = flag.Bool("update", false, "rewrite the reference of commands and settings")

const (
	root   = "../.."
	header = "<!-- Written by scripts/generate; do not edit. -->\n\n"
)

// program returns the command line without an environment, as users have it.
func program() *cobra.Command {
	command := cmd.NewCommand(nil)
	command.InitDefaultCompletionCmd("completion")
	command.DisableAutoGenTag = true
	return command
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReference_MatchesTheProgram compares the pages of commands and the table of settings with the program.
func TestReference_MatchesTheProgram(t *testing.T) {
	want := map[string]string{"settings.md": settings(t)}
	dir := t.TempDir()
	check(t, doc.GenMarkdownTreeCustom(program(), dir, func(string) string { return header }, func(name string) string {
		return name
	}))
	maps.Copy(want, pages(t, dir, "cli/"))

	reference := filepath.Join(root, "docs", "reference")
	if *update {
		check(t, os.RemoveAll(filepath.Join(reference, "cli")))
		check(t, os.MkdirAll(filepath.Join(reference, "cli"), 0o755))
		for name, page := range want {
			check(t, os.WriteFile(filepath.Join(reference, name), []byte(page), 0o644))
		}
	}
	got := pages(t, filepath.Join(reference, "cli"), "cli/")
	table, err := os.ReadFile(filepath.Join(reference, "settings.md"))
	check(t, err)
	got["settings.md"] = string(table)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference differs from the program; run \"make generate\" (-program +pages):\n%s", diff)
	}
}

func pages(t *testing.T, dir, prefix string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	out := map[string]string{}
	for _, entry := range entries {
		page, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		check(t, err)
		out[prefix+entry.Name()] = string(page)
	}
	return out
}

// settings returns a table of all settings of the server.
func settings(t *testing.T) string {
	t.Helper()
	server, _, err := program().Find([]string{"server"})
	check(t, err)
	var b strings.Builder
	b.WriteString(header + "# Settings of the server\n\n" +
		"A setting comes from its flag, else from the environment, else from the file given with `--config` (YAML; " +
		"a key is the flag's name\n" +
		"without dashes before it), else it has its default.\n\n" +
		"| Flag | Environment | Default | What it is |\n|---|---|---|---|\n")
	server.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		defaults := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			defaults = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `--%s` %s | `DROVER_%s` | %s | %s |\n", f.Name, kind,
			strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), defaults, strings.ReplaceAll(usage, "|", `\|`))
	})
	return b.String()
}
