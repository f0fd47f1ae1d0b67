package snapshots

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestWalk_APageThatIsTooLarge checks that reading a page ends, whatever a cluster sends.
func TestWalk_APageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	skip := func(dec *json.Decoder) error { return dec.Decode(&json.RawMessage{}) }
	for name, items := range map[string]string{
		"an endless entry": `"` + strings.Repeat("x", 2000), "endless white space": strings.Repeat(" ", 2000),
		"many entries": strings.Repeat("{},", 500),
	} {
		if _, err := walk(strings.NewReader(`{"kind":"ETCDSnapshotFileList","items":[`+items), 1000,
			skip); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	next, err := walk(
		strings.NewReader(
			`{"kind":"PartialObjectMetadataList","metadata":{"continue":"more"},"items":[{}],"extra":{}}`), 1000, skip)
	if next != "more" || err != nil {
		t.Errorf("a page that fits: %q, %v", next, err)
	}
}
