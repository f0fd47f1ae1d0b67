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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// wokenBy is the sentence of a controller's package comment that lists the kinds of objects that wake it.
	wokenBy = regexp.MustCompile(`Woken by: ([^.]*)\.`)
	note    = regexp.MustCompile(` *\([^)]*\)`)
)

// TestWakeUps_AreInTheCommentsOfControllers compares the kinds that each controller watches, for objects of other kinds
// or names, with the sentence "Woken by: KIND (note), KIND." of its package comment.
func TestWakeUps_AreInTheCommentsOfControllers(t *testing.T) {
	folders, err := filepath.Glob("controllers/*/doc.go")
	if err != nil || len(folders) < 10 {
		t.Fatalf("found %d controllers: %v", len(folders), err)
	}
	for _, doc := range folders {
		folder := filepath.Dir(doc)
		watched := watchedKinds(t, folder)
		if len(watched) == 0 {
			continue
		}
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		sentence := wokenBy.FindStringSubmatch(
			strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", "\n")), " "))
		if sentence == nil {
			t.Errorf("%s must contain the sentence \"Woken by: %s.\"", doc, strings.Join(watched, ", "))
			continue
		}
		listed := strings.Split(note.ReplaceAllString(sentence[1], ""), ", ")
		slices.Sort(listed)
		if diff := cmp.Diff(watched, listed); diff != "" {
			t.Errorf("%s lists other kinds than the controller watches (-watched +listed):\n%s", doc, diff)
		}
	}
}

// watchedKinds returns the kinds of the sources that a package gives to wakeup.On, sorted. Sources that are no
// controllers of a kind are left out.
func watchedKinds(t *testing.T, folder string) []string {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), folder, func(info fs.FileInfo) bool { //nolint:staticcheck // no build tags here
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fields, kinds := map[string]string{}, map[string]bool{}
	for _, pkg := range packages {
		ast.Inspect(pkg, func(node ast.Node) bool {
			if field, ok := node.(*ast.Field); ok {
				if kind := controllerKind(field.Type); kind != "" {
					for _, name := range field.Names {
						fields[name.Name] = kind
					}
				}
			}
			return true
		})
	}
	for _, pkg := range packages {
		ast.Inspect(pkg, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !isSelector(call.Fun, "wakeup", "On") || len(call.Args) < 4 {
				return true
			}
			for _, source := range call.Args[3:] {
				if selector, ok := source.(*ast.SelectorExpr); ok && fields[selector.Sel.Name] != "" {
					kinds[fields[selector.Sel.Name]] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(kinds))
}

// controllerKind is the kind of a field's type XController; those that have the same name in several groups are told
// apart.
func controllerKind(expression ast.Expr) string {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	group, ok := selector.X.(*ast.Ident)
	kind, found := strings.CutSuffix(selector.Sel.Name, "Controller")
	if !ok || !found {
		return ""
	}
	switch {
	case kind == "Cluster" && group.Name == "capicontrollers":
		return "CAPI Cluster"
	case kind == "Cluster" && group.Name == "mgmtcontrollers":
		return "management Cluster"
	default:
		return kind
	}
}

func isSelector(expression ast.Expr, of, name string) bool {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	base, ok := selector.X.(*ast.Ident)
	return ok && base.Name == of
}
