package chartrepo

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// filler is a block of YAML that makes an index large.
var filler = "filler:\n" + strings.Repeat("- "+strings.Repeat("x", 100)+"\n", 11000)

func TestEntriesOf_LargeIndex(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
		err  error
	}{
		"as helm writes it": {"apiVersion: v1\nentries:\n  other:\n  - version: 9.0.0\n  web:\n  - description: |\n" +
			"      web:\n      - version: 8.0.0\n    urls:\n    - a.tgz\n    version: 1.2.3\n  - version: 1.1.0\n" +
			"  zzz:\n  - version: 7.0.0\n" + filler + "generated: now\n", []string{"1.2.3", "1.1.0"}, nil},
		"indented further, with quotes and returns": {"---\r\n\"entries\": # all\r\n    'web':\r\n      -\r\n" +
			"        version: 1.2.3\r\n      - version: 1.1.0\r\n" + filler, []string{"1.2.3", "1.1.0"}, nil},
		"a broken entry":          {"entries:\n  web:\n  - {\n  - version: 1.1.0\n" + filler, []string{"1.1.0"}, nil},
		"only broken entries":     {"entries:\n  web:\n  - {\n" + filler, nil, errIndex},
		"another chart only":      {"entries:\n  other:\n  - version: 9.0.0\n" + filler, nil, nil},
		"the name in another key": {"web:\n- version: 9.0.0\nentries:\n  other: []\n" + filler, nil, nil},
		"one line": {
			"{entries: {web: [{version: 1.2.3}]}}\n" + strings.Repeat("\n", wholeLimit), nil, errIndexForm,
		},
		"too much of the chart": {"entries:\n  web:\n" + strings.Repeat("  - version: 1.2.3\n", entriesLimit/19+1), nil,
			errEntries},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := entriesOf([]byte(tc.text), "web")
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			var got []string
			for _, each := range found {
				got = append(got, each.Version)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

// A large index gives the same entries as a library that reads it at once.
func TestEntriesOf_ReadsWhatHelmWrites(t *testing.T) {
	t.Parallel()
	all := index{Entries: map[string][]*entry{}}
	for _, name := range []string{"a", "web", "web-2", "zzz"} {
		for _, version := range []string{"2.0.0", "1.2.3+up1", "1.2.3"} {
			all.Entries[name] = append(all.Entries[name], &entry{Version: version,
				URLs: []string{"https://example.com/" + name + "-" + version + ".tgz", "b: c"}, Digest: "0e1"})
		}
	}
	text, err := yaml.Marshal(all)
	must(t, err)
	for name, want := range all.Entries {
		got, err := entriesOf(append(text, filler...), name)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("chart %s (-want +got):\n%s", name, diff)
		}
	}
}

// Reading all of an index at once would need a hundred times its size.
func TestEntriesOf_NeedsLittleMemory(t *testing.T) {
	text := []byte("entries:\n  other:\n  - [" + strings.Repeat("a,", transferLimit/2) + "a]\n" +
		"  web:\n  - version: 1.2.3\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := entriesOf(text, "web")
	runtime.ReadMemStats(&after)
	if err != nil || len(found) != 1 {
		t.Errorf("found %d entries: %v", len(found), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("an index of %d MiB needs %d MiB", len(text)>>20, used>>20)
	}
}
