package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// droverModule is the module of the recorded packages.
const droverModule = "github.com/drover-io/drover"

// promisedPackages are the packages that docs/stability.md calls the API.
var promisedPackages = []string{droverModule + "/pkg/apis/...", "./pkg/crds", "./pkg/generated/...", "./pkg/releases",
	"./pkg/server"}

const mustBeSet = " must be set"

// updateAPI updates the record of the API in dir to the tree in the working directory. It adds new lines. A removed or
// narrower line is an error, unless dir/except.txt lists it below the title of an entry of the list of changes.
func updateAPI(dir, changes string) error {
	accepted, err := readExceptions(filepath.Join(dir, "except.txt"), changes)
	if err != nil {
		return err
	}
	var problems []string
	for _, part := range []struct {
		file string
		list func() ([]string, error)
	}{
		{"go.txt", func() ([]string, error) { return goAPI(".", droverModule, promisedPackages, nil) }},
		{"crds.txt", func() ([]string, error) { return crdAPI("pkg/crds/yaml") }},
		{"cli.txt", func() ([]string, error) { return cliAPI("docs/reference/cli") }},
	} {
		current, err := part.list()
		if err != nil {
			return err
		}
		recorded, err := readRecord(filepath.Join(dir, part.file))
		if err != nil {
			return err
		}
		updated, broken := mergeAPI(recorded, current, accepted)
		problems = append(problems, broken...)
		if err := os.WriteFile(filepath.Join(dir, part.file), []byte(strings.Join(updated, "\n")+"\n"),
			0o644); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf(
		"the promised API (docs/stability.md) is broken: \"-\" is gone, \"+\" asks for more than before\n%s\n"+
			"Keep it. If it was never released, take the lines out of %s. If users shall live with it: write an "+
			"entry in %s, and\n"+
			"copy these lines to %s, below a line \"# TITLE OF THE ENTRY\"", strings.Join(problems, "\n"), dir+"/*.txt",
		changes, filepath.Join(dir, "except.txt"))
}

// readRecord reads the lines of a file. A missing file has none.
func readRecord(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n"), err
}

// readExceptions reads the lines that may be removed or narrower. Every block needs a title, which is a heading of the
// list of changes.
func readExceptions(file, changes string) (map[string]bool, error) {
	lines, err := readRecord(file)
	if err != nil {
		return nil, err
	}
	headings, err := headingsOf(changes)
	if err != nil {
		return nil, err
	}
	accepted, title := map[string]bool{}, ""
	for i, line := range lines {
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "# "):
			title = strings.TrimSpace(line[2:])
			if !headings[title] {
				return nil, fmt.Errorf("%s:%d: %q is no heading of %s: tell users there what changes for them", file,
					i+1, title, changes)
			}
		case title == "":
			return nil, fmt.Errorf(
				"%s:%d: a line before the first title: write \"# TITLE OF THE ENTRY IN %s\" above it", file, i+1,
				changes)
		case !strings.HasPrefix(line, "- ") && !strings.HasPrefix(line, "+ "):
			return nil, fmt.Errorf(
				"%s:%d: a line begins with \"- \" for what is gone, or \"+ \" for what has become narrower", file, i+1)
		default:
			accepted[line] = true
		}
	}
	return accepted, nil
}

// headingsOf returns the headings of a document. A missing document has none.
func headingsOf(file string) (map[string]bool, error) {
	lines, err := readRecord(file)
	out := map[string]bool{}
	for _, line := range lines {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			out[strings.TrimSpace(heading)] = true
		}
	}
	return out, err
}

// mergeAPI returns the new promises and the broken ones. Broken are "- " lines that are gone and "+ " lines that are
// stricter.
func mergeAPI(recorded, current []string, accepted map[string]bool) (updated, broken []string) {
	was, is := set(recorded), set(current)
	for _, line := range current {
		if !was[line] && narrows(line, was) && !accepted["+ "+line] {
			broken = append(broken, "+ "+line)
			continue
		}
		updated = append(updated, line)
	}
	for _, line := range recorded {
		if is[line] || accepted["- "+line] || isCheck(line) {
			continue
		}
		broken = append(broken, "- "+line)
		updated = append(updated, line)
	}
	slices.Sort(updated)
	return updated, broken
}

// isCheck reports whether a line restricts the values of a field. Without the line, more values are valid.
func isCheck(line string) bool {
	return strings.HasPrefix(line, "kind ") && strings.Contains(line, " must ")
}

// narrows reports whether a new line makes valid values invalid. That is so if its field was recorded before, or, for a
// required field, the object that contains it.
func narrows(line string, was map[string]bool) bool {
	if !isCheck(line) {
		return false
	}
	subject, _, _ := strings.Cut(line, " must ")
	if strings.HasSuffix(line, mustBeSet) {
		subject = subject[:strings.LastIndexByte(subject, '.')]
		subject = strings.TrimRight(subject, "[]{}")
	}
	if strings.HasSuffix(subject, ", ") || strings.HasSuffix(subject, ", .") {
		return kindWas(subject, was)
	}
	for line := range was {
		if strings.HasPrefix(line, subject+" ") {
			return true
		}
	}
	return false
}

// kindWas reports whether the kind of a line was recorded.
func kindWas(line string, was map[string]bool) bool {
	kind, _, _ := strings.Cut(line, ", ")
	for line := range was {
		if strings.HasPrefix(line, kind+", ") {
			return true
		}
	}
	return false
}

func set(lines []string) map[string]bool {
	out := make(map[string]bool, len(lines))
	for _, line := range lines {
		out[line] = true
	}
	return out
}
