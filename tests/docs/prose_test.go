package docs

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// proseFile has a line "FILE LONG UNCLEAR" for each file whose prose is not plain yet.
const proseFile = "testdata/prose.txt"

// mostWords is the limit for the length of a sentence.
const mostWords = 30

var (
	// unclear matches words without a clear referent.
	unclear = regexp.MustCompile(`(?i)\b(somebody|nobody|anybody|whoever|whomever|anew|beside|thereby|wherefrom|of which|what there is|the one that)\b`)

	sentenceEnd  = regexp.MustCompile(`[.!?:](?:\s|$)|\n\s*\n|\n\s*(?:[-*|•]|\d+\.)\s|\s\|\s`)
	preformatted = regexp.MustCompile(`(?m)^(?:\t| {4}).*$`)
	inCode       = regexp.MustCompile("`[^`\n]*`")
	linkTarget   = regexp.MustCompile(`\]\([^)]*\)`)
)

// prose counts the problems of a text: long sentences and unclear words.
type prose struct{ long, unclear int }

// TestProse_GetsPlainer counts long sentences and unclear words in documents and in the comments of Go files. Counts
// may not rise. When a count falls, run the test with -update to lower the limit.
func TestProse_GetsPlainer(t *testing.T) {
	counted := countProse(t)
	if *update {
		var lines strings.Builder
		for _, file := range slices.Sorted(maps.Keys(counted)) {
			if found := counted[file]; found != (prose{}) {
				fmt.Fprintf(&lines, "%s %d %d\n", file, found.long, found.unclear)
			}
		}
		check(t, os.WriteFile(proseFile, []byte(lines.String()), 0o600))
	}
	allowed := readProse(t)
	for _, file := range slices.Sorted(maps.Keys(counted)) {
		found, most := counted[file], allowed[file]
		if found.long > most.long {
			t.Errorf("%s has %d sentences with more than %d words, and may have %d: split them", file, found.long, mostWords, most.long)
		}
		if found.unclear > most.unclear {
			t.Errorf("%s has %d unclear words (%s), and may have %d: name what you mean", file, found.unclear, unclear, most.unclear)
		}
		if found.long < most.long || found.unclear < most.unclear {
			t.Errorf("%s is plainer than testdata/prose.txt says: run go -C tests test ./docs -run TestProse -update", file)
		}
	}
	for file := range allowed {
		if _, ok := counted[file]; !ok {
			t.Errorf("testdata/prose.txt lists %s, which does not exist: run the test with -update", file)
		}
	}
}

// TestProse_SeesWhatIsNotPlain shows that the counts are not always zero.
func TestProse_SeesWhatIsNotPlain(t *testing.T) {
	long := strings.Repeat("word ", mostWords+1)
	for name, test := range map[string]struct {
		text string
		want prose
	}{
		"plain":                        {text: "Drover waits until the machine works. Then it goes on.", want: prose{}},
		"a long sentence":              {text: "Short. " + long + ".", want: prose{long: 1}},
		"a list has several":           {text: "- " + long + "\n- " + long, want: prose{long: 2}},
		"unclear words":                {text: "Nobody knows, of which somebody tells.", want: prose{unclear: 3}},
		"code is no prose":             {text: "```\n" + long + "somebody\n```\n`nobody`", want: prose{}},
		"targets of links are neither": {text: "[a page](nobody.md)", want: prose{}},
	} {
		if got := proseOf(test.text); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// countProse counts the problems of every document and of every hand-written Go file.
func countProse(t *testing.T) map[string]prose {
	t.Helper()
	counted := map[string]prose{}
	for file, text := range texts(t) {
		if !strings.HasPrefix(file, "docs/reference/") {
			counted[file] = proseOf(text)
		}
	}
	check(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains([]string{"bin", "dist", "testdata", "pkg/generated"}, name) || strings.HasPrefix(entry.Name(), ".") && file != root):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasPrefix(entry.Name(), "zz_generated"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		var found prose
		for _, group := range parsed.Comments {
			one := proseOf(group.Text())
			found.long, found.unclear = found.long+one.long, found.unclear+one.unclear
		}
		counted[name] = found
		return nil
	}))
	if len(counted) < 500 {
		t.Fatalf("found %d files only: the test looks in the wrong place", len(counted))
	}
	return counted
}

func proseOf(text string) prose {
	text = preformatted.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	text = linkTarget.ReplaceAllString(inCode.ReplaceAllString(text, "CODE"), "]")
	var found prose
	for _, sentence := range sentenceEnd.Split(text, -1) {
		if len(strings.Fields(sentence)) > mostWords {
			found.long++
		}
	}
	found.unclear = len(unclear.FindAllString(text, -1))
	return found
}

func readProse(t *testing.T) map[string]prose {
	t.Helper()
	text, err := os.ReadFile(proseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	check(t, err)
	allowed := map[string]prose{}
	for line := range strings.Lines(string(text)) {
		var file string
		var most prose
		if _, err := fmt.Sscan(line, &file, &most.long, &most.unclear); err != nil {
			t.Fatalf("%s: %q: %v", proseFile, line, err)
		}
		allowed[file] = most
	}
	return allowed
}
