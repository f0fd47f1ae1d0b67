package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mostWords is the limit for the length of a sentence.
const mostWords = 30

var (
	// unclear matches words without a clear referent.
	unclear = regexp.MustCompile(
		`(?i)\b(somebody|nobody|anybody|whoever|whomever|anew|thereby|wherefrom|what there is)\b`)

	sentenceEnd  = regexp.MustCompile(`[.!?:]\*{0,2}(?:\s|$)|\n\s*\n|\n\s*(?:[-*|•]|\d+\.)\s|\s\|\s`)
	preformatted = regexp.MustCompile(`(?m)^(?:\t| {4}|\+).*$`)
	inCode       = regexp.MustCompile("`[^`\n]*`")
	linkTarget   = regexp.MustCompile(`\]\([^)]*\)`)
)

// TestProse_IsPlain finds long sentences and unclear words in documents and in the comments of Go files. It also finds
// unclear words in messages.
func TestProse_IsPlain(t *testing.T) {
	files := 0
	report := func(file, text string) {
		for _, problem := range unplain(text) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	for file, text := range texts(t) {
		if !strings.HasPrefix(file, "docs/reference/") { // generated from code
			files++
			report(file, text)
		}
	}
	eachFile(t, []string{".go"}, func(file, name string, entry fs.DirEntry) error {
		if strings.HasPrefix(name, "pkg/generated/") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		for _, group := range parsed.Comments {
			report(name, group.Text())
		}
		if name != "tests/docs/prose_test.go" { // quotes the unclear words
			for _, word := range unclearMessages(parsed) {
				t.Errorf("%s: unclear word %q in a message", name, word)
			}
		}
		return nil
	})
	if files < 500 {
		t.Fatalf("found only %d files: the test looks in the wrong place", files)
	}
}

// unclearMessages lists the unclear words in string literals with a space. Other literals are names or keys.
func unclearMessages(file *ast.File) []string {
	var words []string
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
			words = append(words, unclear.FindAllString(text, -1)...)
		}
		return true
	})
	return words
}

func TestUnclearMessages(t *testing.T) {
	const code = "package a\n// nobody\nvar a, b, c = \"somebody\", \"the user waits\", \"made anew\"\n"
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", code, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"anew"}, unclearMessages(file)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnplain(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("one two ", mostWords/2) + "three")
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"short sentences": {text: "Drover waits until the machine works. Then it goes on."},
		"a long sentence": {text: "Short. " + long + ".",
			want: []string{"31 words, want at most 30: one two one two one two …"}},
		"a list of long items": {text: "- a\n- " + long,
			want: []string{"31 words, want at most 30: one two one two one two …"}},
		"unclear words": {text: "Nobody knows that somebody reads.",
			want: []string{`unclear word "Nobody"`, `unclear word "somebody"`}},
		"code":             {text: "```\n" + long + " somebody\n```\n`nobody`\n\tsomebody"},
		"targets of links": {text: "[a page](nobody.md)"},
	} {
		if diff := cmp.Diff(test.want, unplain(test.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// unplain lists what is hard to read in a text. Code is left out.
func unplain(text string) []string {
	text = preformatted.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	text = linkTarget.ReplaceAllString(inCode.ReplaceAllString(text, "CODE"), "]")
	var problems []string
	for _, sentence := range sentenceEnd.Split(text, -1) {
		if words := strings.Fields(sentence); len(words) > mostWords {
			problems = append(problems, fmt.Sprintf("%d words, want at most %d: %s …", len(words), mostWords,
				strings.Join(words[:6], " ")))
		}
	}
	for _, word := range unclear.FindAllString(text, -1) {
		problems = append(problems, fmt.Sprintf("unclear word %q", word))
	}
	return problems
}
