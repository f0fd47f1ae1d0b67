package pkg

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const reasonDocs = "../docs/reasons"

// speechless are folders whose reasons are on no object of ours and in no metric: fakes, programs of their own, and
// answers to machines and browsers.
var speechless = []string{"testkit", "local", "generated", "reach/connect", "reach/tunnel", "reach/clusteragent",
	"reach/clusterproxy", "reach/endpointauth", "ui"}

var (
	// reasonName is how constants are called. Those of metrics may be codes.
	reasonName = regexp.MustCompile(`^([rR]eason|code)[A-Z]`)
	// reasonWord is one word in CamelCase. Messages have more than one.
	reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	// telling are functions that take a reason.
	telling = regexp.MustCompile(`^([sS]et(Meta)?|Wait(For)?|waitFor|Stall|failure|failRemove|warn|warning|normal|step)$`)
	// rowOfReason is one of the README, with a link.
	rowOfReason = regexp.MustCompile(`(?m)^\| \[([A-Za-z]+)\]\(([A-Za-z]+)\.md\) \|`)
)

// reasons are what the sources say.
type reasons struct {
	// named are the values of constants, by package and name; all are their values.
	named map[string]string
	all   map[string]bool
	// told are names, by package, of reasons that something takes.
	told []string
	// normal are names of Events that tell what goes well.
	normal map[string]bool
	// literals are reasons that have no name.
	literals []string
}

// readReasons reads every constant that is a reason, and every place that takes one.
func readReasons(t *testing.T) *reasons {
	t.Helper()
	r := &reasons{named: map[string]string{}, all: map[string]bool{}, normal: map[string]bool{}}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(speechless, path) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool { r.visit(node, file.Name.Name, files); return true })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.all) < 80 {
		t.Fatalf("found %d reasons: the test looks in the wrong place", len(r.all))
	}
	return r
}

func (r *reasons) visit(node ast.Node, pkg string, files *token.FileSet) {
	literal := func(value ast.Expr) {
		if word, ok := word(value); ok {
			r.literals = append(r.literals, files.Position(value.Pos()).String()+": "+word)
		}
	}
	switch n := node.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i >= len(n.Values) || !reasonName.MatchString(name.Name) {
				continue
			}
			if value, ok := word(n.Values[i]); ok {
				r.named[pkg+"."+name.Name], r.all[value] = value, true
			}
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
			literal(n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if i < len(n.Rhs) && strings.HasSuffix(strings.ToLower(last(left)), "reason") {
				literal(n.Rhs[i])
			}
		}
	case *ast.CallExpr:
		if !telling.MatchString(last(n.Fun)) {
			return
		}
		for i, argument := range n.Args {
			if i == 0 || strings.EqualFold(last(n.Fun), "set") || last(n.Fun) == "SetMeta" {
				literal(argument)
			}
			if name := owner(argument, pkg) + "." + last(argument); reasonName.MatchString(last(argument)) {
				r.told = append(r.told, name)
				r.normal[name] = r.normal[name] || last(n.Fun) == "normal" || last(n.Fun) == "step"
			}
		}
	}
}

// word is a literal that is one word.
func word(value ast.Expr) (string, bool) {
	literal, ok := value.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil && reasonWord.MatchString(text)
}

// last is the name of an identifier, without its package.
func last(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// owner is the package of an identifier.
func owner(expression ast.Expr, own string) string {
	if selector, ok := expression.(*ast.SelectorExpr); ok {
		if base, ok := selector.X.(*ast.Ident); ok {
			return base.Name
		}
	}
	return own
}

// documented are the reasons with a page. The README of the pages leads to all of them.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	pages := map[string]bool{}
	files, err := filepath.Glob(reasonDocs + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if name := strings.TrimSuffix(filepath.Base(path), ".md"); name != "README" {
			pages[name] = true
		}
	}
	index, err := os.ReadFile(reasonDocs + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for _, row := range rowOfReason.FindAllStringSubmatch(string(index), -1) {
		if row[1] != row[2] {
			t.Errorf("docs/reasons/README.md: %s links to the page of %s", row[1], row[2])
		}
		linked[row[1]] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(pages)), slices.Sorted(maps.Keys(linked))); diff != "" {
		t.Errorf("pages of docs/reasons (-) and links of its README (+):\n%s", diff)
	}
	return pages
}

// TestReasons_AreDocumented: who meets a reason finds what it means, and every reason that is explained exists.
func TestReasons_AreDocumented(t *testing.T) {
	said, pages := readReasons(t), documented(t)
	for _, literal := range said.literals {
		t.Errorf("%s: declare a constant for the reason, const Reason… = %q", literal,
			literal[strings.LastIndex(literal, " ")+1:])
	}
	for _, reason := range slices.Sorted(maps.Keys(said.all)) {
		if !pages[reason] {
			t.Errorf("reason %s needs a page docs/reasons/%s.md", reason, reason)
		}
	}
	for _, name := range said.told {
		_, ours := said.named[name]
		_, api := said.named["v1."+name[strings.Index(name, ".")+1:]] // API types are imported under other names
		if !ours && !api {
			t.Errorf("reason %s must be a constant", name)
		}
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		if !said.all[page] {
			t.Errorf("docs/reasons/%s.md explains an unused reason", page)
		}
	}
}

// TestReasons_PagesAnswerWhatPeopleAsk: each page says where the reason is seen, what it means, what Drover does, and
// what to do.
func TestReasons_PagesAnswerWhatPeopleAsk(t *testing.T) {
	pages := documented(t)
	for name := range pages {
		page, err := os.ReadFile(filepath.Join(reasonDocs, name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(page)
		for _, part := range []string{"# " + name + "\n", "\n**Where:** ", "\n**What it means:** ",
			"\n**What Drover does:** ", "\n**What you do:** "} {
			if !strings.Contains(text, part) {
				t.Errorf("docs/reasons/%s.md must contain %q", name, strings.TrimSpace(part))
			}
		}
		for _, link := range regexp.MustCompile(`\]\(([A-Za-z]+)\.md\)`).FindAllStringSubmatch(text, -1) {
			if !pages[link[1]] {
				t.Errorf("docs/reasons/%s.md links to %s, which is not a page", name, link[1])
			}
		}
	}
}

// TestReasons_PagesOfEventsSayTheirType: an alert or a filter is made by it.
func TestReasons_PagesOfEventsSayTheirType(t *testing.T) {
	said := readReasons(t)
	for name, reason := range said.named {
		if !strings.HasPrefix(name, "events.") {
			continue
		}
		page, err := os.ReadFile(filepath.Join(reasonDocs, reason+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, where, _ := strings.Cut(string(page), "**Where:**")
		where, _, _ = strings.Cut(where, "\n\n")
		kind := corev1.EventTypeWarning
		if said.normal[name] {
			kind = corev1.EventTypeNormal
		}
		if !strings.Contains(where, "Event of type "+kind) {
			t.Errorf("docs/reasons/%s.md must say that the Event has type %s", reason, kind)
		}
	}
}
