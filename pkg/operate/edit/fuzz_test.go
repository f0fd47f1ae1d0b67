package edit_test

import (
	"bytes"
	"testing"

	"github.com/drover-io/drover/pkg/operate/edit"
)

// FuzzParseText: each text has objects or problems, and each position is in the text.
func FuzzParseText(f *testing.F) {
	f.Add([]byte(clusterText))
	f.Add([]byte(configText + "---\n" + clusterText))
	f.Add([]byte("a: &x [*x]\n---\n- {b: *x, <<: *x}\n"))
	f.Add([]byte("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: []\nspec: {rkeConfig: 1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, found := edit.ParseText(data)
		if text.Cluster() == nil && len(found) == 0 {
			t.Fatal("neither a Cluster nor a problem")
		}
		if len(found) == 0 {
			found = append(found, text.CheckNames("team-a", "demo")...)
			found = append(found, text.Locate(text.Cluster(), []edit.Problem{{Field: "spec.rkeConfig[0].name"}})...)
			desired := edit.Desired(nil, text.Cluster(), "team-a")
			edit.Written(edit.Desired(desired, text.Cluster(), "team-a"))
			edit.ConfigRefs(desired, text)
			text.Notes()
		}
		lines := 1
		for _, ending := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} { // what YAML takes for one
			lines += bytes.Count(data, []byte(ending))
		}
		for _, one := range found {
			if one.Line < 1 || one.Line > lines {
				t.Errorf("line %d of %d: %s", one.Line, lines, one.Message)
			}
		}
	})
}
