package pkg

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxMethods is how many methods a type may have. A reader cannot keep more in mind: split the type by what it does.
const maxMethods = 60

// exemptions are types with more methods, and how many they have. The numbers may only fall.
var exemptions = map[string]int{
	"decide/planner/render.machinePlan": 82, // one method for each part of a plan
	"testkit/memkube.Server":            83, // one method for each request of the API
}

// TestTypes_HaveFewMethods keeps types small enough to be understood.
func TestTypes_HaveFewMethods(t *testing.T) {
	methods := map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || path == "generated" || path == "ui/web"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[filepath.ToSlash(filepath.Dir(path))+"."+receiverOf(fn)]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read sources: %v", err)
	}
	if len(methods) < 100 {
		t.Fatalf("found %d types with methods: the test looks in the wrong place", len(methods))
	}
	for name, n := range methods {
		if limit := max(maxMethods, exemptions[name]); n > limit {
			t.Errorf("%s has %d methods, at most %d: split it by what it does", name, n, limit)
		}
	}
	for name, limit := range exemptions {
		if methods[name] < limit {
			t.Errorf("%s has %d methods: lower its number in exemptions, or remove it", name, methods[name])
		}
	}
}

// receiverOf is the name of the type that a method belongs to.
func receiverOf(fn *ast.FuncDecl) string {
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
