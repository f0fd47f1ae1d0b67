package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecord_OpenReturnsExistingThingsNewestFirst(t *testing.T) {
	tests := map[string]struct {
		write func(t *testing.T, r *record)
		want  []entry
	}{
		"an empty record": {write: func(*testing.T, *record) {}},
		"removed things are left out": {
			write: func(t *testing.T, r *record) {
				t.Helper()
				must(t, r.add(kindNamespace, "a"))
				must(t, r.add(kindNamespace, "b"))
				must(t, r.add(kindCgroup, "c"))
				must(t, r.remove(kindNamespace, "a"))
			},
			want: []entry{{Kind: kindCgroup, Name: "c"}, {Kind: kindNamespace, Name: "b"}},
		},
		"a thing that is created twice is one thing with the last time": {
			write: func(t *testing.T, r *record) {
				t.Helper()
				must(t, r.add(kindNamespace, "a"))
				must(t, r.add(kindNamespace, "b"))
				must(t, r.add(kindNamespace, "a"))
			},
			want: []entry{{Kind: kindNamespace, Name: "a"}, {Kind: kindNamespace, Name: "b"}},
		},
		"an incomplete last line is ignored": {
			write: func(t *testing.T, r *record) {
				t.Helper()
				must(t, r.add(kindNamespace, "a"))
				file, err := os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0o600)
				must(t, err)
				_, err = file.WriteString(`{"kind":"namesp`)
				must(t, err)
				must(t, file.Close())
			},
			want: []entry{{Kind: kindNamespace, Name: "a"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &record{path: filepath.Join(t.TempDir(), "record.jsonl")}
			test.write(t, r)
			got, err := r.open()
			must(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
