package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMergeAPI_TellsWhatBreaks: new lines become promises, and removed or stricter lines break one.
func TestMergeAPI_TellsWhatBreaks(t *testing.T) {
	const kind = "kind g/v1 K, "
	for name, tt := range map[string]struct {
		recorded, current, accepted, updated, broken []string
	}{
		"a function comes":  {[]string{"a"}, []string{"a", "b"}, nil, []string{"a", "b"}, nil},
		"a function goes":   {[]string{"a", "b"}, []string{"a"}, nil, []string{"a", "b"}, []string{"- b"}},
		"a function may go": {[]string{"a", "b"}, []string{"a"}, []string{"- b"}, []string{"a"}, nil},
		"a function changes": {[]string{"f(int)"}, []string{"f(string)"}, nil,
			[]string{"f(int)", "f(string)"}, []string{"- f(int)"}},
		"a constant that says must": {[]string{`pkg p, const C = "x must y"`}, nil, nil,
			[]string{`pkg p, const C = "x must y"`}, []string{`- pkg p, const C = "x must y"`}},
		"a field is checked": {[]string{kind + ".a string"},
			[]string{kind + ".a string", kind + ".a must match x"}, nil, []string{kind + ".a string"},
			[]string{"+ " + kind + ".a must match x"}},
		"a field may be checked": {[]string{kind + ".a string"},
			[]string{kind + ".a must match x", kind + ".a string"}, []string{"+ " + kind + ".a must match x"},
			[]string{kind + ".a must match x", kind + ".a string"}, nil},
		"a check goes": {[]string{kind + ".a must match x", kind + ".a string"},
			[]string{kind + ".a string"}, nil, []string{kind + ".a string"}, nil},
		"a checked field comes": {[]string{kind + ".a string"},
			[]string{kind + ".a string", kind + ".b must match x", kind + ".b string"}, nil,
			[]string{kind + ".a string", kind + ".b must match x", kind + ".b string"}, nil},
		"a required field comes": {[]string{kind + ".a object"},
			[]string{kind + ".a object", kind + ".a.b must be set", kind + ".a.b string"}, nil,
			[]string{kind + ".a object", kind + ".a.b string"}, []string{"+ " + kind + ".a.b must be set"}},
		"one in items of a list": {[]string{kind + ".a list of object"},
			[]string{kind + ".a list of object", kind + ".a[].b must be set"}, nil,
			[]string{kind + ".a list of object"}, []string{"+ " + kind + ".a[].b must be set"}},
		"one at the top": {[]string{kind + "namespaced ks"},
			[]string{kind + "namespaced ks", kind + ".b must be set"}, nil, []string{kind + "namespaced ks"},
			[]string{"+ " + kind + ".b must be set"}},
		"a required field of a new one": {[]string{kind + ".a object"},
			[]string{kind + ".a object", kind + ".c object", kind + ".c.b must be set"}, nil,
			[]string{kind + ".a object", kind + ".c object", kind + ".c.b must be set"}, nil},
		"a kind comes": {[]string{"kind g/v1 J, .b string"},
			[]string{kind + ".b must be set", "kind g/v1 J, .b string"}, nil,
			[]string{"kind g/v1 J, .b string", kind + ".b must be set"}, nil},
		"a rule of the whole object": {[]string{kind + "namespaced ks"},
			[]string{kind + "namespaced ks", kind + ". must satisfy x"}, nil, []string{kind + "namespaced ks"},
			[]string{"+ " + kind + ". must satisfy x"}},
	} {
		updated, broken := mergeAPI(tt.recorded, tt.current, set(tt.accepted))
		if strings.Join(updated, "\n") != strings.Join(tt.updated, "\n") ||
			strings.Join(broken, "\n") != strings.Join(tt.broken, "\n") {
			t.Errorf("%s: record %q, broken %q; want %q and %q", name, updated, broken, tt.updated, tt.broken)
		}
	}
}

// TestExceptions_NeedAnEntryForUsers: every removal needs an entry in the list of changes.
func TestExceptions_NeedAnEntryForUsers(t *testing.T) {
	dir := t.TempDir()
	changes := write(t, dir, "changes.md", "# Changes\n\n## F is gone\n\nUse G.\n")
	for text, want := range map[string]string{
		"# F is gone\n- pkg p, func F()\n": "",
		"- pkg p, func F()\n":              "before the first title",
		"# E is gone\n- pkg p, func E()\n": "no heading of",
		"# F is gone\npkg p, func F()\n":   `begins with "- "`,
	} {
		accepted, err := readExceptions(write(t, dir, "except.txt", text), changes)
		switch {
		case want == "" && (err != nil || !accepted["- pkg p, func F()"]):
			t.Errorf("%q: %v, error %v", text, accepted, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// TestGoAPI_ListsWhatIsExported: every name that an importer can use has a line, and no other name has.
func TestGoAPI_ListsWhatIsExported(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/m\n\ngo 1.26.0\n")
	write(t, dir, "inner/inner.go", "package inner\n\ntype S struct{ A, b int }\n\nfunc (S) Do() {}\n")
	write(t, dir, "p/p.go", `package p

import "example.com/m/inner"

const C = "x"
var V, v int
type Set = inner.S
type T[K comparable] struct {
	F map[K]string `+"`json:\"f,omitempty\"`"+`
	inner.S
	hidden int
}
func (t *T[K]) M(first int, rest ...string) (n int, err error) { return }
func (T[K]) m() {}
type I interface { B(x int); A() }
func F(named func(inside int) error) <-chan int { return nil }
func f() {}
`)
	want := []string{
		`pkg p, const C untyped string = "x"`,
		`pkg p, func F(func(int) error) <-chan int`,
		`pkg p, method (*T) M(int, ...string) (int, error)`,
		`pkg p, type I interface{ A(); B(int) }`,
		`pkg p, type Set struct`,
		`pkg p, type Set struct, A int`,
		`pkg p, type T struct, F map[K]string json:"f,omitempty"`,
		`pkg p, type T struct, embedded inner.S`,
		`pkg p, type T[K comparable] struct`,
		`pkg p, var V int`,
	}
	got, err := goAPI(dir, "example.com/m", []string{"./p"}, nil)
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := goAPI(dir, "example.com/m", []string{"./missing"}, nil); err == nil {
		t.Error("a missing package causes no error")
	}
}

// TestRecord_IsOfThisTree: the record has what the packages export, and a renamed function breaks it.
func TestRecord_IsOfThisTree(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readRecord(filepath.Join(root, "api", "go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for _, line := range all {
		if strings.HasPrefix(line, "pkg pkg/crds,") {
			recorded = append(recorded, line)
		}
	}
	broken := func(flags ...string) []string {
		current, err := goAPI(root, droverModule, []string{"./pkg/crds"}, flags)
		if err != nil {
			t.Fatal(err)
		}
		_, broken := mergeAPI(recorded, current, nil)
		return broken
	}
	if got := broken(); len(got) > 0 {
		t.Errorf("the record is not of this tree: %q", got)
	}

	source := filepath.Join(root, "pkg", "crds", "crds.go")
	content, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	changed := write(t, t.TempDir(), "crds.go", strings.ReplaceAll(string(content), "Read(", "ReadEvery("))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	got := broken("-overlay=" + write(t, t.TempDir(), "overlay.json", string(overlay)))
	if len(got) != 1 || !strings.HasPrefix(got[0], "- pkg pkg/crds, func Read(") {
		t.Errorf("without func Read, what is broken is %q", got)
	}
}
