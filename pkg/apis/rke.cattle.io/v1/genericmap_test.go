package v1

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

type holder struct {
	Map GenericMap `json:"map,omitzero"`
}

func TestGenericMap_JSON(t *testing.T) {
	tests := map[string]struct {
		in   string
		want map[string]any
		out  string
	}{
		"absent stays absent":   {in: `{}`, want: nil, out: `{}`},
		"null counts as absent": {in: `{"map":null}`, want: nil, out: `{}`},
		"empty stays empty":     {in: `{"map":{}}`, want: map[string]any{}, out: `{"map":{}}`},
		"whole numbers stay whole": {in: `{"map":{"a":9007199254740993}}`,
			want: map[string]any{"a": int64(9007199254740993)}, out: `{"map":{"a":9007199254740993}}`},
		"fractions, nulls and nesting": {in: `{"map":{"a":[1.5,null,{"b":false}]}}`,
			want: map[string]any{"a": []any{1.5, nil, map[string]any{"b": false}}},
			out:  `{"map":{"a":[1.5,null,{"b":false}]}}`},
		"keys are written sorted": {in: `{"map":{"b":"1","a":"2"}}`, want: map[string]any{"a": "2", "b": "1"},
			out: `{"map":{"a":"2","b":"1"}}`},
		"a bare object without members": {in: `{"map":{"a":{}}}`, want: map[string]any{"a": map[string]any{}},
			out: `{"map":{"a":{}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got holder
			if err := json.Unmarshal([]byte(test.in), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Map.Data, test.want) {
				t.Errorf("want %#v, got %#v", test.want, got.Map.Data)
			}
			out, err := json.Marshal(got)
			if err != nil || string(out) != test.out {
				t.Errorf("want %s, got %s, error %v", test.out, out, err)
			}
			unstructured, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&got)
			if err != nil {
				t.Fatal(err)
			}
			var back holder
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(unstructured, &back); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, got) {
				t.Errorf("round trip through unstructured: want %#v, got %#v", got, back)
			}
		})
	}
}

func TestGenericMap_RefusesOtherTypes(t *testing.T) {
	for _, in := range []string{`[]`, `"text"`, `1`} {
		if err := json.Unmarshal([]byte(`{"map":`+in+`}`), &holder{}); err == nil {
			t.Errorf("%s was accepted", in)
		}
	}
}

func TestGenericMap_DeepCopySharesNothing(t *testing.T) {
	original := GenericMap{Data: map[string]any{
		"list": []any{map[string]any{"a": int64(1)}}, "texts": []string{"x"}, "int": 1, "int32": int32(2),
		"float32": float32(0.5), "null": nil,
	}}
	duplicate := original.DeepCopy()
	want := map[string]any{
		"list": []any{map[string]any{"a": int64(1)}}, "texts": []any{"x"}, "int": int64(1), "int32": int64(2),
		"float32": 0.5, "null": nil,
	}
	if !reflect.DeepEqual(duplicate.Data, want) {
		t.Errorf("want %#v, got %#v", want, duplicate.Data)
	}
	duplicate.Data["list"].([]any)[0].(map[string]any)["a"] = int64(2)
	if original.Data["list"].([]any)[0].(map[string]any)["a"] != int64(1) {
		t.Error("the copy shares a nested object with the original")
	}
	if unset := (&GenericMap{}).DeepCopy(); unset.Data != nil {
		t.Errorf("the copy of an unset map is %#v", unset.Data)
	}
}
