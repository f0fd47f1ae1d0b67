package edit_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/operate/edit"
)

// No part of a text gets lost: it is a document, or it has a problem.
func TestParseText_ReadsAllDocuments(t *testing.T) {
	const flow = `{apiVersion: rke-machine-config.cattle.io/v1, kind: PodConfig, metadata: {name: x}, size: small}`
	const behind = "the text goes on behind the end of a document; write --- before the next one"
	for name, tc := range map[string]struct {
		text, want string
		configs    int
	}{
		"behind the separator":   {clusterText + "--- " + flow + "\n", "", 1},
		"a tab":                  {clusterText + "---\t" + flow + "\n", "", 1},
		"a tag":                  {clusterText + "--- !!map\n" + configText, "", 1},
		"a comment":              {clusterText + "--- # c\n" + configText, "", 1},
		"an anchor":              {"--- &x\n" + configText + "--- &x\n" + clusterText, "", 1},
		"an end":                 {clusterText + "...\n---\n" + configText, "", 1},
		"an end of the text":     {configText + "---\n" + clusterText + "... # c\n# c\n", "", 1},
		"no separator":           {clusterText + "...\n" + configText, "16:0 " + behind, 0},
		"no separator of a flow": {flow + "\n" + clusterText, "1:0 " + behind, 0},
		"a line of old systems": {strings.ReplaceAll(clusterText+"---\n"+configText, "\n", "\r"),
			"1:0 " + behind, 0},
		"an object as nothing":    {clusterText + "--- !!null\n" + configText, "", 1},
		"a text as nothing":       {clusterText + "--- !!null x\n", "16:5 the document is no object", 0},
		"nothing":                 {clusterText + "--- ~\n---\n--- null\n", "", 0},
		"no separator, but a key": {clusterText + "---x: y\n", "16:1 ---x: a Cluster has no such field", 0},
	} {
		text, found := edit.ParseText([]byte(tc.text))
		if diff := cmp.Diff(tc.want, problems(found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := len(text.Configs()); got != tc.configs {
			t.Errorf("%s: %d machine configs, want %d", name, got, tc.configs)
		}
	}
}

// A small text needs little memory and time.
func TestParseText_IsBounded(t *testing.T) {
	const much, most = 1 << 18, 100
	repeat := func(format string) string {
		var out strings.Builder
		for i := 0; out.Len() < much; i++ {
			out.WriteString(strings.ReplaceAll(format, "#", strconv.Itoa(i)))
		}
		return out.String()
	}
	const aliases = "1:1 the aliases stand for more than 4 MiB; write the values in their places"
	for name, tc := range map[string]struct {
		text, want string
		count      int
	}{
		"unknown fields": {clusterText + repeat("a#: 1\n"), "16:1 a0: a Cluster has no such field", most},
		"a field":        {clusterText + repeat("a: 1\n"), "17:1 a: the field is there twice", most},
		"labels": {edited("team: a\n", "team: a\n"+repeat("    a#: 1\n")),
			"7:5 metadata.labels[a0]: must be a text; put the value in quotes", most},
		"documents": {repeat("---\n"), "251:0 the text has more than 250 documents", 1},
		"broken documents": {repeat("---\n\ta: [\n"),
			"2:0 the YAML is not valid: found character that cannot start any token", most},
		"a long alias": {clusterText + "x: &x " + strings.Repeat("y", much) + "\nz:\n" + repeat("- *x\n"), aliases, 1},
		"aliases of aliases": {clusterText + "a0: &a0 [x]\n" + repeat("a1#: &a1 [*a0, *a0]\na0#: &a0 [*a1, *a1]\n"),
			aliases, 1},
		"an alias in its value": {clusterText + "a: &a [*a]\n", aliases, 1},
		"some aliases": {strings.Replace(edited("name: servers", "name: &name servers"), "name: workers",
			"cloudCredentialSecretName: *name", 1), "", 0},
		"lists in lists": {clusterText + "x: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "\n",
			"1:1 more than 100 objects and lists contain each other", 1},
		"a long path": {clusterText + "x: {" + strings.Repeat("y", 600) + ": {a: b, a: c}}\n",
			"16:614 the field is there twice", 2},
	} {
		_, found := edit.ParseText([]byte(tc.text))
		if len(found) != tc.count {
			t.Errorf("%s: %d problems, want %d", name, len(found), tc.count)
		}
		if diff := cmp.Diff(tc.want, problems(found[:min(len(found), 1)])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The numbers are those of live objects, so a text that changes nothing is the live object.
func TestParseText_KeepsNumbers(t *testing.T) {
	const large = 9007199254740993 // no float has this value
	text, found := edit.ParseText([]byte(edited("quantity: 1", "quantity: 9007199254740993") + "---\n" + configText +
		"disk: 9007199254740993\nshare: 0.5\n"))
	if len(found) > 0 {
		t.Fatal(found)
	}
	config := text.Configs()[0].Object
	if diff := cmp.Diff([]any{int64(large), 0.5}, []any{config["disk"], config["share"]}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	live := objectOf(t, edited("quantity: 1", "quantity: 9007199254740993"))
	if !edit.IsSame(live, edit.Desired(live, text.Cluster(), "")) {
		t.Errorf("the text differs from the live object: %v", text.Cluster())
	}
}
