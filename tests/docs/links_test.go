package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// texts returns the documents of the repository by path from its root.
func texts(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, from := range []string{"README.md", "CONTRIBUTING.md", "docs", "charts"} {
		check(t, filepath.WalkDir(filepath.Join(root, from), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".md" {
				return err
			}
			text, err := os.ReadFile(file)
			out[strings.TrimPrefix(filepath.ToSlash(file), root+"/")] = string(text)
			return err
		}))
	}
	if len(out) < 10 {
		t.Fatalf("found only %d documents", len(out))
	}
	return out
}

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^ *```(\\w*)$.*?^ *```$")
	shell   = regexp.MustCompile("(?ms)^ *```sh$\n(.*?)^ *```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	inline  = regexp.MustCompile("`(drover [^`]+)`")
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks_Resolve checks that the page and heading of every link within the repository exist.
func TestLinks_Resolve(t *testing.T) {
	for file, text := range texts(t) {
		for _, problem := range deadLinks(root, file, text) {
			t.Error(problem)
		}
	}
}

// deadLinks lists the links of a document without a target.
func deadLinks(root, file, text string) []string {
	var problems []string
	for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		target, anchor, _ := strings.Cut(found[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		other := filepath.Join(root, file)
		if target != "" {
			other = filepath.Join(root, filepath.Dir(file), target)
		}
		info, err := os.Stat(other)
		if err != nil {
			problems = append(problems, file+": there is no "+target)
			continue
		}
		if anchor == "" || info.IsDir() {
			continue
		}
		content, err := os.ReadFile(other)
		if err != nil || !headings(string(content))[anchor] {
			problems = append(problems, file+": no heading of "+target+" is #"+anchor)
		}
	}
	return problems
}

// TestIndex_NamesEveryPage: docs/README.md leads to every page and folder in docs/.
func TestIndex_NamesEveryPage(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	check(t, err)
	listed := map[string]bool{"README.md": true}
	for _, found := range link.FindAllStringSubmatch(string(index), -1) {
		first, _, _ := strings.Cut(strings.TrimPrefix(found[1], "./"), "/")
		listed[first] = true
	}
	entries, err := os.ReadDir(filepath.Join(root, "docs"))
	check(t, err)
	for _, entry := range entries {
		if !listed[entry.Name()] {
			t.Errorf("docs/README.md must list docs/%s", entry.Name())
		}
	}
}

// headings returns the anchors of a document.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out[strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")] = true
	}
	return out
}

// TestCommands_Exist checks that the program has every drover command and flag in a document's shell blocks and inline
// code.
func TestCommands_Exist(t *testing.T) {
	shown := 0
	for file, text := range texts(t) {
		var lines []string
		for _, block := range shell.FindAllStringSubmatch(text, -1) {
			lines = append(lines, strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n")...)
		}
		for _, code := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			lines = append(lines, code[1])
		}
		for _, line := range lines {
			if args, ok := droverArgs(line); ok {
				shown++
				if problem := unknown(program(), args); problem != "" {
					t.Errorf("%s: %s: %s", file, strings.TrimSpace(line), problem)
				}
			}
		}
	}
	if shown < 5 {
		t.Errorf("found only %d commands: the test looks in the wrong place", shown)
	}
}

// droverArgs returns the arguments of a line that runs drover.
func droverArgs(line string) ([]string, bool) {
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	for i, word := range words {
		switch {
		case word == "drover" || strings.HasSuffix(word, "/drover"):
			if i > 0 && !strings.Contains(words[i-1], "=") && words[i-1] != "sudo" && words[i-1] != "--" &&
				words[i-1] != "|" && words[i-1] != "&&" {
				return nil, false
			}
			args := words[i+1:]
			for j, arg := range args {
				if strings.ContainsAny(arg, "|;>&") {
					args = args[:j]
					break
				}
			}
			return args, true
		}
	}
	return nil, false
}

// unknown returns the part of a command line that the program does not know.
func unknown(root *cobra.Command, args []string) string {
	if len(args) == 0 {
		return ""
	}
	command, rest, err := root.Find(args)
	switch {
	case err != nil:
		return err.Error()
	case command == root && !strings.HasPrefix(args[0], "-"):
		return "there is no command " + args[0]
	}
	command.InitDefaultHelpFlag()
	for _, arg := range rest {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return ""
		case strings.HasPrefix(name, "--") && command.Flag(name[2:]) == nil:
			return "drover " + command.Name() + " has no flag " + name
		case strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "--") && len(name) == 2 &&
			command.Flags().ShorthandLookup(name[1:]) == nil:
			return "drover " + command.Name() + " has no flag " + name
		}
	}
	return ""
}

// TestChecks_FindMistakes shows that the checks above can fail.
func TestChecks_FindMistakes(t *testing.T) {
	for text, problems := range map[string]int{
		"[a](README.md) [b](docs/) [c](https://example.com/x) [d](#here)\n# Here\n": 0,
		"[a](MISSING.md)":                  1,
		"[a](README.md#no-such-heading)":   1,
		"[d](#there)\n# Here\n":            1,
		"```sh\n[a](MISSING.md)\n```\n":    0,
		"[a](docs/install.md#cluster-api)": 0,
	} {
		file := "CHECKED.md"
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		check(t, os.MkdirAll(filepath.Join(dir, "docs"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("# Drover\n"), 0o644))
		check(t, os.WriteFile(filepath.Join(dir, "docs", "install.md"), []byte("## Cluster API\n"), 0o644))
		if got := deadLinks(dir, file, text); len(got) != problems {
			t.Errorf("%q: found %q, want %d problems", text, got, problems)
		}
	}
	for line, wrong := range map[string]bool{
		"drover explain demo -n fleet-default":         false,
		"sudo drover server --embedded --data-dir DIR": false,
		"DROVER_X=1 bin/drover version | cat -A":       false,
		"drover explian demo":                          true,
		"drover explain demo --namespaces x":           true,
		"drover explain demo -z":                       true,
	} {
		args, ok := droverArgs(line)
		if !ok || (unknown(program(), args) != "") != wrong {
			t.Errorf("%q: args %q, problem %q, want a problem: %t", line, args, unknown(program(), args), wrong)
		}
	}
	if args, ok := droverArgs("helm install drover charts/drover --namespace drover-system"); ok {
		t.Errorf("%q counts as arguments of drover", args)
	}
}
