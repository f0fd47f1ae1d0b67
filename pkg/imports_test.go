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

// layers lists the packages of this module from the lowest to the highest. A package may import those in layers
// before its own and those in its own layer, except that controllers never import each other.
var layers = []struct {
	name     string
	packages []string
}{
	{"API types", []string{"apis/**", "generated/**"}},
	{"pure foundations", []string{"disruption", "naming", "conditions", "outcome", "distro", "nodeplan", "redact", "pullsecret"}},
	{"pure decisions", []string{
		"releases", "topology", "planner/render", "planner", "preview", "tenancy", "bootstrapdata", "driverschema", "machinejob", "events", "diagnose", "supportbundle",
		"admission", "registration", "clustermanifest", "endpointtoken", "snapshots",
	}},
	{"I/O helpers", []string{
		"admission/webhook", "admission/registration", "crds", "clients", "access", "metrics", "tracing", "logs", "applyset", "ownwrites", "wakeup", "planstore", "tokens",
		"rehearsal", "registries", "agent", "tunnel/**", "clusteragent", "endpointauth", "proxy", "clusterproxy", "connect", "capi", "capi/**", "rival", "managementplane/**",
	}},
	{"controllers", []string{"controllers/*"}},
	{"composition", []string{"controllers", "inspect", "adopt", "airgap", "backup"}},
	{"embedding API", []string{"server"}},
	{"command line", []string{"cmd"}},
}

// testOnly packages may import anything but the composition, and only tests import them.
var testOnly = []string{"testkit/**"}

// pure packages decide and render. They get everything as values, so they can be tested, replayed and reasoned about without a cluster.
var pure = []string{
	"disruption", "naming", "conditions", "outcome", "distro", "nodeplan", "redact", "pullsecret", "topology", "planner/render", "planner", "preview", "tenancy", "bootstrapdata",
	"driverschema", "machinejob", "events", "diagnose", "supportbundle", "admission", "registration", "clustermanifest", "endpointtoken", "snapshots",
}

// impure is what a pure package must not import: clients, loggers, the environment, the file system, randomness.
var impure = []string{
	"os", "os/**", "net/http", "net/http/**", "log", "log/**", "math/rand", "math/rand/**", "crypto/rand", "syscall", "io/ioutil",
	"github.com/sirupsen/**", "k8s.io/klog/**", "k8s.io/client-go/**", "github.com/rancher/lasso/**", "sigs.k8s.io/controller-runtime/**",
	"github.com/rancher/wrangler/v3/pkg/apply", "github.com/rancher/wrangler/v3/pkg/generic", "github.com/rancher/wrangler/v3/pkg/generated/**",
}

// impureCalls read the clock. Time comes in as a value.
var impureCalls = []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep", "time.NewTimer", "time.NewTicker"}

// TestImports_PointDown fails with a sentence when an import turns the architecture round.
func TestImports_PointDown(t *testing.T) {
	for _, file := range parseAll(t) {
		own, ok := layerOf(file.pkg)
		if !ok {
			if !matchAny(testOnly, file.pkg) && file.pkg != "" {
				t.Errorf("package pkg/%s is in no layer: add it to the list in pkg/imports_test.go, where it belongs by what it does", file.pkg)
			}
			continue
		}
		for _, imported := range file.imports {
			other, found := strings.CutPrefix(imported, module)
			if !found || other == file.pkg {
				continue
			}
			if matchAny(testOnly, other) {
				t.Errorf("%s imports pkg/%s: only tests import the test kit", file.path, other)
				continue
			}
			above, known := layerOf(other)
			switch {
			case !known:
			case above > own:
				t.Errorf("%s imports pkg/%s: %s is above %s, and imports point down", file.path, other, layers[above].name, layers[own].name)
			case strings.HasPrefix(other, "controllers/") && strings.HasPrefix(file.pkg, "controllers/"):
				t.Errorf("%s imports pkg/%s: a controller never imports another; they meet in objects", file.path, other)
			}
		}
	}
}

// TestImports_PurePackagesDoNoIO keeps decisions apart from the world.
func TestImports_PurePackagesDoNoIO(t *testing.T) {
	for _, file := range parseAll(t) {
		if !slices.Contains(pure, file.pkg) {
			continue
		}
		for _, imported := range file.imports {
			if matchAny(impure, imported) {
				t.Errorf("%s imports %s: pkg/%s decides on values; move the reading to the caller's gather and the writing to its act",
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

// TestImports_ClusterAPIControllersHaveOneDoor keeps Cluster API's controllers, and what they pull in, out of everything else.
func TestImports_ClusterAPIControllersHaveOneDoor(t *testing.T) {
	for _, file := range parseAll(t) {
		for _, imported := range file.imports {
			inAPI := imported == "sigs.k8s.io/cluster-api/api" || strings.HasPrefix(imported, "sigs.k8s.io/cluster-api/api/")
			if strings.HasPrefix(imported, "sigs.k8s.io/cluster-api/") && !inAPI && !matchAny([]string{"capi", "capi/**"}, file.pkg) {
				t.Errorf("%s imports %s: only pkg/capi imports Cluster API's controllers; types are in sigs.k8s.io/cluster-api/api", file.path, imported)
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
			t.Errorf("pkg/%s has no package comment: write a doc.go that tells a newcomer what it is for", pkg)
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
			if path == "embedded" || path == "machinebinary" || entry.Name() == "testdata" {
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

func layerOf(pkg string) (int, bool) {
	for i, layer := range layers {
		if matchAny(layer.packages, pkg) {
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
