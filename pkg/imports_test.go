package pkg

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/drover-io/drover/pkg/"

// rooms are the folders of this module, from the lowest to the highest, with those that each may import. Packages of
// one room import each other as they like, except that controllers never do.
var rooms = []struct {
	name, holds string
	packages    []string
	imports     []string
}{
	{"types", "types, typed clients and CRDs", []string{"apis/**", "generated/**", "crds"}, nil},
	{"decide", "pure decisions on values", []string{"decide/**"}, []string{"types"}},
	{"releases", "facts about Kubernetes versions", []string{"releases"}, []string{"types", "decide"}},
	{"kube", "the management API", []string{"kube/**"}, []string{"types", "decide"}},
	{"admission", "what the API server refuses or fills in", []string{"admission/**"},
		[]string{"types", "decide", "releases", "kube"}},
	{"observe", "metrics, Events and traces", []string{"observe/**"}, []string{"types", "decide", "kube"}},
	{"reach", "connections of machines and clusters", []string{"reach/**"}, []string{"types", "decide", "observe"}},
	{"agent", "the node agent", []string{"agent/**"}, []string{"types", "decide"}},
	{"local", "what runs on one machine or in one pod only", []string{"local/**"}, []string{"types", "decide"}},
	{"controllers", "one folder per object", []string{"controllers/*"},
		[]string{"types", "decide", "releases", "kube", "admission", "observe", "reach"}},
	{"all controllers", "their list and what they share", []string{"controllers"},
		[]string{"types", "decide", "releases", "kube", "admission", "observe", "reach", "controllers"}},
	{"operate", "what an operator asks for", []string{"operate/**"},
		[]string{"types", "decide", "releases", "kube", "admission", "observe", "reach", "controllers",
			"all controllers"}},
	{"ui", "the web UI", []string{"ui"}, []string{"types", "decide", "releases", "kube", "admission", "observe", "reach",
		"controllers", "all controllers", "operate"}},
	{"server", "the embedding API", []string{"server"}, []string{"types", "decide", "releases", "kube", "admission",
		"observe", "reach", "all controllers", "ui"}},
	{"cmd", "the command line", []string{"cmd"}, []string{"types", "decide", "releases", "kube", "admission", "observe",
		"reach", "agent", "local", "all controllers", "operate", "ui", "server"}},
}

// testOnly packages may import anything but the composition, and only tests import them.
var testOnly = []string{"testkit/**"}

// pure packages decide and render. They get everything as values, so tests can call and replay them without a cluster.
// Some are outside decide/, because they belong to what they decide about.
var pure = []string{
	"decide/**", "admission", "observe/events", "reach/endpointtoken", "operate/preview", "operate/diagnose",
	"operate/credential", "operate/edit", "operate/operation", "operate/status", "operate/supportbundle",
}

// impure is what a pure package must not import: clients, loggers, the environment, the file system, randomness.
var impure = []string{
	"os", "os/**", "net/http", "net/http/**", "log", "log/**", "math/rand", "math/rand/**", "crypto/rand", "syscall",
	"io/ioutil",
	"github.com/sirupsen/**", "k8s.io/klog/**", "k8s.io/client-go/**", "github.com/rancher/lasso/**",
	"sigs.k8s.io/controller-runtime/**",
	"github.com/rancher/wrangler/v3/pkg/apply", "github.com/rancher/wrangler/v3/pkg/generic",
	"github.com/rancher/wrangler/v3/pkg/generated/**",
}

// impureCalls read the clock. Time comes in as a value.
var impureCalls = []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep", "time.NewTimer",
	"time.NewTicker"}

// TestImports_PointDown fails with a sentence when a package imports one that its room may not import.
func TestImports_PointDown(t *testing.T) {
	for _, file := range parseAll(t) {
		own, ok := roomOf(file.pkg)
		if !ok {
			if !matchAny(testOnly, file.pkg) && file.pkg != "" {
				t.Errorf("package pkg/%s is in no room: move it to the folder of its room, see pkg/imports_test.go",
					file.pkg)
			}
			continue
		}
		for _, imported := range file.imports {
			other, found := strings.CutPrefix(imported, module)
			if !found || other == file.pkg {
				continue
			}
			if matchAny(testOnly, other) {
				t.Errorf("%s imports pkg/%s: only tests may import the test kit", file.path, other)
				continue
			}
			target, known := roomOf(other)
			switch {
			case !known:
			case target != own && !slices.Contains(rooms[own].imports, rooms[target].name):
				t.Errorf("%s imports pkg/%s: %s (%s) may not import %s (%s)",
					file.path, other, rooms[own].name, rooms[own].holds, rooms[target].name, rooms[target].holds)
			case strings.HasPrefix(other, "controllers/") && strings.HasPrefix(file.pkg, "controllers/"):
				t.Errorf("%s imports pkg/%s: a controller may not import another; controllers share only objects",
					file.path, other)
			}
		}
	}
}

// TestImports_PurePackagesDoNoIO keeps decisions apart from the world.
func TestImports_PurePackagesDoNoIO(t *testing.T) {
	for _, file := range parseAll(t) {
		if !matchAny(pure, file.pkg) {
			continue
		}
		for _, imported := range file.imports {
			if matchAny(impure, imported) {
				t.Errorf("%s imports %s: pkg/%s decides on values; move reads to the caller's gather, and writes to "+
					"its act",
					file.path, imported, file.pkg)
			}
		}
		for _, call := range file.calls {
			if slices.Contains(impureCalls, call) {
				t.Errorf("%s calls %s: pkg/%s gets the time as a value", file.path, call, file.pkg)
			}
		}
	}
}

// TestImports_ClusterAPIControllersHaveOneDoor keeps Cluster API's controllers, and what they pull in, out of
// everything else.
func TestImports_ClusterAPIControllersHaveOneDoor(t *testing.T) {
	for _, file := range parseAll(t) {
		for _, imported := range file.imports {
			inAPI := imported == "sigs.k8s.io/cluster-api/api" ||
				strings.HasPrefix(imported, "sigs.k8s.io/cluster-api/api/")
			if strings.HasPrefix(imported, "sigs.k8s.io/cluster-api/") && !inAPI &&
				!matchAny([]string{"kube/capi/**"}, file.pkg) {
				t.Errorf("%s imports %s: only pkg/kube/capi imports Cluster API's controllers; types are in "+
					"sigs.k8s.io/cluster-api/api", file.path, imported)
			}
		}
	}
}

// TestPackageDocs_EveryPackageSaysWhatItIs makes sure that a newcomer who opens a package is told what it is for.
func TestPackageDocs_EveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range parseAll(t) {
		if !strings.HasPrefix(file.pkg, "generated/") && !strings.HasPrefix(filepath.Base(file.path), "zz_generated") {
			documented[file.pkg] = documented[file.pkg] || file.doc
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("pkg/%s has no package comment: write a doc.go that explains its purpose", pkg)
		}
	}
}

// source is what the rules look at in one file.
type source struct {
	path, pkg string
	imports   []string
	calls     []string
	doc       bool
}

func parseAll(t *testing.T) []source {
	t.Helper()
	var sources []source
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// Nested modules have their own rules: they are programs, or types without code.
			if path == "local/embedded" || path == "local/machinebinary" || path == "ui/web" ||
				entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = ""
		}
		s := source{path: "pkg/" + path, pkg: pkg, doc: parsed.Doc != nil}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			s.imports = append(s.imports, imported)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				if base, ok := selector.X.(*ast.Ident); ok {
					s.calls = append(s.calls, base.Name+"."+selector.Sel.Name)
				}
			}
			return true
		})
		sources = append(sources, s)
		return nil
	})
	if err != nil {
		t.Fatalf("read sources: %v", err)
	}
	if len(sources) < 10 {
		t.Fatalf("found %d source files: the rules look in the wrong place", len(sources))
	}
	return sources
}

func roomOf(pkg string) (int, bool) {
	for i, room := range rooms {
		if matchAny(room.packages, pkg) {
			return i, true
		}
	}
	return 0, false
}

// matchAny matches a path against patterns: exact, or a prefix before "/**", or one more element before "/*".
func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "/**"); ok {
			return path == prefix || strings.HasPrefix(path, prefix+"/")
		}
		if prefix, ok := strings.CutSuffix(pattern, "/*"); ok {
			rest, found := strings.CutPrefix(path, prefix+"/")
			return found && !strings.Contains(rest, "/")
		}
		return path == pattern
	})
}
