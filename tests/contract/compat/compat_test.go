package compat

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

const root = "../../.."

// TestCompatibilityTable compares docs/compatibility.md and its tables with the types, the constants and the warnings.
func TestCompatibilityTable(t *testing.T) {
	t.Run("page", func(t *testing.T) {
		golden.Check(t, filepath.Join(root, "docs", "compatibility.md"), page())
	})
	t.Run("kinds", func(t *testing.T) { report(t, problemsOfKinds(t)) })
	for _, k := range kinds {
		t.Run(k.Group+" "+k.Name, func(t *testing.T) { report(t, problemsOf(k)) })
	}
	t.Run("warnings", func(t *testing.T) { report(t, problemsOfWarnings(cluster)) })
	t.Run("names", func(t *testing.T) { report(t, problemsOfNames(t)) })
	t.Run("endpoints", func(t *testing.T) { report(t, problemsOfEndpoints(t)) })
	t.Run("settings", func(t *testing.T) { report(t, problemsOfSettings(t)) })
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

// problemsOf finds fields without a verdict, entries without a field, and verdicts without a text.
func problemsOf(k Kind) []string {
	entries, duplicates := k.entries()
	var problems []string
	for _, path := range duplicates {
		problems = append(problems, path+" has two verdicts")
	}
	used := map[string]bool{}
	for _, l := range leaves(reflect.TypeOf(k.Object)) {
		entry := entryOf(entries, l.path)
		if entry == "" {
			problems = append(problems, l.path+" has no verdict: read the code that uses the field, and add an entry")
		}
		used[entry] = true
	}
	for path, row := range entries {
		if !used[path] {
			problems = append(problems, path+" is no field: remove the entry")
		}
		if row.Verdict != Works && row.Text == "" {
			problems = append(problems, path+" needs a text")
		}
	}
	return problems
}

// problemsOfKinds finds kinds in the schemes without a section, and absent kinds that exist.
func problemsOfKinds(t *testing.T) []string {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{provv1.AddToScheme, rkev1.AddToScheme, mgmtv3.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	listed := map[string]bool{}
	for _, k := range kinds {
		listed[k.Group+" "+k.Name] = true
	}
	var problems []string
	for gvk, object := range scheme.AllKnownTypes() {
		if !strings.HasPrefix(object.PkgPath(), ownTypes) || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		if !listed[gvk.GroupVersion().String()+" "+gvk.Kind] {
			problems = append(problems, gvk.String()+" has no section")
		}
		for _, row := range absentKinds {
			if slices.Contains(strings.Fields(row.Names), gvk.Kind) {
				problems = append(problems, gvk.String()+" exists: remove it from the absent kinds")
			}
		}
	}
	return problems
}

// problemsOfWarnings sets each field and annotation of a Cluster. Exactly those without effect must cause a warning. A
// warning about a field that works differently may depend on other fields.
func problemsOfWarnings(k Kind) []string {
	var problems []string
	entries, _ := k.entries()
	for _, l := range leaves(reflect.TypeFor[provv1.Cluster]()) {
		if strings.HasPrefix(l.path, "status.") {
			continue
		}
		c := provisioned()
		fill(reflect.ValueOf(&c).Elem(), l.index)
		warned := slices.ContainsFunc(topology.WithoutEffect(&c), func(one topology.Ignored) bool {
			at := strings.ReplaceAll(one.Field, "[0]", "[]")
			return l.path == at || strings.HasPrefix(l.path, at+".")
		})
		problems = append(problems, disagreement(l.path, entries[entryOf(entries, l.path)].Verdict, warned)...)
	}
	for _, row := range annotations.Rows {
		for key := range strings.FieldsSeq(row.Names) {
			if row.On == "Cluster" {
				c := provisioned()
				c.Annotations = map[string]string{key: "true"}
				problems = append(problems, disagreement(key, row.Verdict, len(topology.WithoutEffect(&c)) > 0)...)
			}
		}
	}
	return problems
}

func disagreement(name string, verdict Verdict, warned bool) []string {
	switch {
	case verdict == NoEffect && !warned:
		return []string{name + " has no effect, but topology.WithoutEffect does not report it"}
	case verdict != NoEffect && verdict != Differs && warned:
		return []string{name + ": topology.WithoutEffect reports it, but the verdict is \"" + string(verdict) + "\""}
	}
	return nil
}

// provisioned is a cluster with one pool of a node driver.
func provisioned() provv1.Cluster {
	c := provv1.Cluster{Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{{
		Name: "p", NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "a"},
	}}}}}
	c.Namespace = "fleet-default"
	return c
}

// named matches constants for names that other programs see.
var named = regexp.MustCompile(
	`(Label|Annotation|Finalizer)$|^(SecretType|(Cluster|NodeDriver|FleetWorkspace|ManagedChart)?Condition)`)

// constant is a name in the code. Its key is the alias of its package and its identifier.
type constant struct{ key, value string }

// constants returns the names of Rancher in pkg/apis.
func constants(t *testing.T) []constant {
	t.Helper()
	var out []constant
	for alias, dir := range map[string]string{"provv1": "provisioning.cattle.io/v1", "rkev1": "rke.cattle.io/v1",
		"mgmtv3": "management.cattle.io/v3"} {
		for _, name := range []string{"names.go", "conditions.go"} {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "pkg", "apis", dir, name), nil, 0)
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(node ast.Node) bool {
				spec, ok := node.(*ast.ValueSpec)
				if !ok || !named.MatchString(spec.Names[0].Name) {
					return true
				}
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				statuses := []string{rkev1.ConditionTrue, rkev1.ConditionFalse, rkev1.ConditionUnknown}
				if !strings.Contains(value, "drover.io/") && !slices.Contains(statuses, value) {
					out = append(out, constant{alias + "." + spec.Names[0].Name, value})
				}
				return true
			})
		}
	}
	return out
}

// problemsOfNames finds constants without a verdict, verdicts for unknown names, and names with the verdict "works"
// whose constant no code uses.
func problemsOfNames(t *testing.T) []string {
	verdicts, problems := map[string]Verdict{}, []string{}
	for _, list := range names {
		for _, row := range list.Rows {
			if row.Verdict != Works && row.Text == "" {
				problems = append(problems, row.Names+" needs a text")
			}
			for name := range strings.FieldsSeq(row.Names) {
				if old, exists := verdicts[name]; exists && list.Title != "Conditions" {
					problems = append(problems, name+" has two verdicts: "+string(old)+", "+string(row.Verdict))
				}
				verdicts[name] = row.Verdict
			}
		}
	}
	uses, known := uses(t), map[string]bool{}
	for _, name := range []string{"auth.cattle.io/capi-resources-cleanup", "controller.cattle.io/namespace-auth",
		"controller.cattle.io/cluster-agent-controller-cleanup", "controller.cattle.io/cluster-provisioner-controller",
		"controller.cattle.io/cluster-scoped-gc", "controller.cattle.io/mgmt-cluster-rbac-remove",
	} { // only Rancher has them
		known[name] = true
	}
	for _, c := range constants(t) {
		known[c.value] = true
		verdict, exists := verdicts[c.value]
		if !exists {
			problems = append(problems, c.value+" ("+c.key+") has no verdict")
		}
		if verdict == Works && !uses[c.key] && strings.Contains(c.value, "/") {
			problems = append(problems, c.value+" works, but no code uses "+c.key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		if !known[name] {
			problems = append(problems, name+" is no constant of pkg/apis: correct or remove the entry")
		}
	}
	return problems
}

// uses returns the constants that programs use.
func uses(t *testing.T) map[string]bool {
	t.Helper()
	used := regexp.MustCompile(`\b(?:provv1|rkev1|mgmtv3)\.\w+`)
	out := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"apis", "generated", "testkit"}, entry.Name()):
			return filepath.SkipDir
		case filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(file)
		for _, name := range used.FindAllString(string(content), -1) {
			out[name] = true
		}
		return err
	})
	if err != nil || len(out) < 100 {
		t.Fatalf("found %d uses of constants: %v", len(out), err)
	}
	return out
}

// problemsOfEndpoints compares paths with the reference of endpoints.
func problemsOfEndpoints(t *testing.T) []string {
	reference, err := os.ReadFile(filepath.Join(root, "docs", "wire", "endpoints.md"))
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, row := range endpoints.Rows {
		for path := range strings.FieldsSeq(row.Names) {
			whole := regexp.MustCompile("`" + regexp.QuoteMeta(path) + "(TOKEN|ID|`)")
			if works := whole.Match(reference); works != (row.Verdict == Works) {
				problems = append(problems, path+": docs/wire/endpoints.md disagrees with "+string(row.Verdict))
			}
		}
	}
	return problems
}

// problemsOfSettings finds flags that the server does not have.
func problemsOfSettings(t *testing.T) []string {
	reference, err := os.ReadFile(filepath.Join(root, "docs", "reference", "settings.md"))
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, s := range settings {
		switch {
		case s.Flag == "" && s.Text == "":
			problems = append(problems, s.Names+" needs a flag or a text")
		case s.Flag != "" && !strings.Contains(string(reference), "| `"+s.Flag+"` "):
			problems = append(problems, s.Names+": the server has no flag "+s.Flag)
		}
	}
	return problems
}
