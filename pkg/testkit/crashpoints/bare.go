package crashpoints

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	uid    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	// identifier is the name of a management cluster. Its last part is random.
	identifier = regexp.MustCompile(`c-m-[a-z0-9]{8}`)
)

// applied is the annotation with the applied set of objects. It is compressed and contains the random part of names.
const applied = "objectset.rio.cattle.io/applied"

// changing are fields that count or date events, and applied. A kill may raise or delay their values.
var changing = []string{"uid", "resourceVersion", "generation", "observedGeneration", "creationTimestamp",
	"managedFields", applied}

// Bare returns objects by kind and name, so that a test can compare the results of two runs. It removes what differs
// between any two runs: times, UIDs, versions, random names and the order of conditions.
func Bare(objects []*unstructured.Unstructured) map[string]any {
	owners := map[string]string{}
	for _, object := range objects {
		owners[string(object.GetUID())] = "<uid of " + object.GetKind() + " " + object.GetName() + ">"
	}
	b := bare{owners: owners}
	out := map[string]any{}
	for _, object := range objects {
		content := object.DeepCopy().Object
		if data, ok := content["data"].(map[string]any); ok && object.GetKind() == "Secret" {
			for key, value := range data {
				if decoded, err := base64.StdEncoding.DecodeString(fmt.Sprint(value)); err == nil {
					data[key] = string(decoded)
				}
			}
		}
		out[b.text(object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName())] = b.value(content)
	}
	return out
}

// bare maps UIDs to the names of owners.
type bare struct{ owners map[string]string }

func (b bare) value(value any) any {
	switch value := value.(type) {
	case string:
		return b.text(value)
	case map[string]any:
		for _, key := range changing {
			delete(value, key)
		}
		for key, field := range value {
			value[key] = b.value(field)
		}
	case []any:
		for i := range value {
			value[i] = b.value(value[i])
		}
		slices.SortStableFunc(value, func(x, y any) int { return cmp.Compare(typeOf(x), typeOf(y)) })
	}
	return value
}

func (b bare) text(text string) string {
	text = uid.ReplaceAllStringFunc(text, func(found string) string { return cmp.Or(b.owners[found], "<uid>") })
	return identifier.ReplaceAllString(moment.ReplaceAllString(text, "<time>"), "c-m-…")
}

// typeOf returns the type of a condition or an address, and "" for any other value.
func typeOf(value any) string {
	if fields, ok := value.(map[string]any); ok {
		name, _ := fields["type"].(string)
		return name
	}
	return ""
}
