package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Updates reject duplicate list keys like creations do, except in objects that were stored with duplicates before the
// rule existed.
func TestUpdate_DuplicateKeys(t *testing.T) {
	kind := "map"
	v, err := newValidator(&apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{
		"pools": {
			Type: "array", XListType: &kind, XListMapKeys: []string{"name"},
			Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &apiextv1.JSONSchemaProps{
				Type: "object", Required: []string{"name"},
				Properties: map[string]apiextv1.JSONSchemaProps{"name": {Type: "string"}},
			}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	pools := func(names ...string) map[string]any {
		list := []any{}
		for _, name := range names {
			list = append(list, map[string]any{"name": name})
		}
		return map[string]any{"pools": list}
	}
	twice := []string{`Duplicate value: {"name":"a"}`}
	for name, tc := range map[string]struct {
		old, object map[string]any
		want        []string
	}{
		"each key once":                {old: pools("a"), object: pools("a", "b")},
		"a new duplicate key":          {old: pools("a"), object: pools("a", "a"), want: twice},
		"an existing duplicate key":    {old: pools("a", "a"), object: pools("a", "a", "b")},
		"created with a duplicate key": {object: pools("a", "a"), want: twice},
	} {
		t.Run(name, func(t *testing.T) {
			result := v.Create(t.Context(), tc.object)
			if tc.old != nil {
				result = v.Update(t.Context(), tc.old, tc.object)
			}
			if diff := cmp.Diff(tc.want, result.Messages()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
