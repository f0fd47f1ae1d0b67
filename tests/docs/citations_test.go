package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// citation matches a page of docs/ in a comment, with or without the anchor of a heading.
	citation = regexp.MustCompile(`(?m)(?:^|[^\w/.-])(docs/(?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]*))?`)
	// foreign matches a citation of a document outside the repository.
	foreign = regexp.MustCompile(`spec/0\d`)
	// numbered matches the number of an invariant or a weakness in a mutant's name.
	numbered = regexp.MustCompile(`name: "([IW]\d+)"`)
)

// maxText is the maximum size of a checked text in bytes. Larger files are recordings or programs.
const maxText = 1 << 20

// TestCitations_PointToTheWireReference checks that every page and heading cited in code, scripts and documents exists.
func TestCitations_PointToTheWireReference(t *testing.T) {
	files, cited, pages := 0, 0, map[string]map[string]bool{}
	eachFile(t, []string{"", ".go", ".md", ".sh", ".tpl", ".yaml"},
		func(file, name string, entry fs.DirEntry) error {
			info, err := entry.Info()
			if err != nil || info.Size() > maxText || !info.Mode().IsRegular() {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			found, problems := citations(root, string(text), pages)
			files, cited = files+1, cited+found
			for _, problem := range problems {
				t.Errorf("%s: %s", name, problem)
			}
			return nil
		})
	if files < 500 || cited < 100 {
		t.Errorf("found only %d citations in %d files: the test looks in the wrong place", cited, files)
	}
}

// eachFile visits the files of the repository with one of the extensions. It leaves out programs, test data and hidden
// folders. The name of a file is its path from the root of the repository.
func eachFile(t *testing.T, extensions []string, visit func(file, name string, entry fs.DirEntry) error) {
	t.Helper()
	check(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && (slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, name) ||
			name[0] == '.' && file != root):
			return filepath.SkipDir
		case entry.IsDir() || !slices.Contains(extensions, filepath.Ext(name)):
			return nil
		}
		return visit(file, strings.TrimPrefix(filepath.ToSlash(file), root+"/"), entry)
	}))
}

// citations counts the citations of a text and lists those without a target. It caches the headings of pages.
func citations(root, text string, pages map[string]map[string]bool) (found int, problems []string) {
	for _, wrong := range foreign.FindAllString(text, -1) {
		problems = append(problems, wrong+" is no document of this repository: cite docs/wire, or say the reason")
	}
	for _, cited := range citation.FindAllStringSubmatch(text, -1) {
		page, anchor := cited[1], cited[2]
		if pages[page] == nil {
			content, err := os.ReadFile(filepath.Join(root, page))
			if err != nil {
				problems = append(problems, "there is no "+page)
				continue
			}
			pages[page] = headings(string(content))
		}
		if found++; anchor != "" && !pages[page][anchor] {
			problems = append(problems, fmt.Sprintf("no heading of %s is #%s", page, anchor))
		}
	}
	return found, problems
}

// TestInvariants_AreListed compares docs/invariants.md with the numbers of the mutants.
func TestInvariants_AreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	check(t, err)
	names := 0
	for _, file := range []string{"invariants.go", "weaknesses.go"} {
		table, err := os.ReadFile(filepath.Join(root, "tests", "mutants", file))
		check(t, err)
		for _, name := range numbered.FindAllStringSubmatch(string(table), -1) {
			if names++; !strings.Contains(string(page), "\n| "+name[1]+" | ") {
				t.Errorf("docs/invariants.md has no line for %s", name[1])
			}
		}
	}
	if names < 50 {
		t.Errorf("found only %d names: the test looks in the wrong place", names)
	}
}

// TestCitations_FindMistakes shows that the check above can fail.
func TestCitations_FindMistakes(t *testing.T) {
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, "docs", "wire"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "docs", "wire", "plan.md"), []byte("# Plans\n\n## State mode\n"), 0o644))
	page := "docs/" + "wire/plan.md"
	for text, want := range map[string]struct{ found, problems int }{
		"// mode switches it (" + page + "#state-mode). Next": {1, 0},
		"// see " + page + ".":                                {1, 0},
		"// see " + page + "#no-such-heading":                 {1, 1},
		"// see docs/" + "wire/missing.md#state-mode":         {0, 1},
		"// see https://example.com/docs/" + "missing.md":     {0, 0},
		"// see spec/" + "02 §8":                              {0, 1},
	} {
		found, problems := citations(dir, text, map[string]map[string]bool{})
		if found != want.found || len(problems) != want.problems {
			t.Errorf("%q: found %d, problems %q, want %+v", text, found, problems, want)
		}
	}
}
