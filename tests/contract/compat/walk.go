package compat

import (
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownTypes begins the import paths of types whose fields have a verdict.
const ownTypes = "github.com/drover-io/drover/"

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	// standard are fields of every kind. They need no verdict.
	standard = []reflect.Type{reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[metav1.ObjectMeta]()}
	// reference is a type of Kubernetes whose fields Drover reads one by one.
	reference = reflect.TypeFor[corev1.ObjectReference]()
)

// leaf is a field without fields of its own. Its index leads from the object to the field: -1 is an element of a list
// or a map, or the target of a pointer.
type leaf struct {
	path  string
	index []int
}

// leaves returns the fields of a type. `[]` follows the name of a list of objects, and `.*` the name of a map of
// objects.
func leaves(object reflect.Type) []leaf {
	var out []leaf
	walk(object, "", nil, func(l leaf) { out = append(out, l) })
	return out
}

func walk(t reflect.Type, path string, index []int, visit func(leaf)) {
	deeper := func(i int) []int { return append(append([]int{}, index...), i) }
	switch {
	case t.Kind() == reflect.Pointer:
		walk(t.Elem(), path, deeper(-1), visit)
	case isList(t):
		walk(t.Elem(), path+"[]", deeper(-1), visit)
	case t.Kind() == reflect.Map && hasFields(t.Elem()):
		walk(t.Elem(), path+".*", deeper(-1), visit)
	case !hasFields(t) || t.NumField() == 0:
		visit(leaf{path, index})
	default:
		for i := range t.NumField() {
			field := t.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case isStandard(field.Type) || name == "-":
			case options == "inline" || field.Anonymous && name == "":
				walk(field.Type, path, deeper(i), visit)
			default:
				walk(field.Type, strings.TrimPrefix(path+"."+name, "."), deeper(i), visit)
			}
		}
	}
}

func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && hasFields(t.Elem()) }

func isStandard(t reflect.Type) bool { return t == standard[0] || t == standard[1] }

// hasFields reports whether the fields of a type are fields of the API, each with its own meaning.
func hasFields(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own := strings.HasPrefix(t.PkgPath(), ownTypes) || t == reference
	return t.Kind() == reflect.Struct && own && !t.Implements(marshaler) && !reflect.PointerTo(t).Implements(marshaler)
}

// fill sets one field of an object to a value other than zero, and makes what leads to it.
func fill(v reflect.Value, index []int) {
	switch {
	case len(index) == 0:
		nonZero(v)
	case index[0] >= 0:
		fill(v.Field(index[0]), index[1:])
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), index[1:])
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		fill(v.Index(0), index[1:])
	case v.Kind() == reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, index[1:])
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("a").Convert(v.Type().Key()), element)
	}
}

func nonZero(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	}
}

// entryOf returns the longest entry that a path belongs to, or "".
func entryOf(entries map[string]Row, path string) string {
	for at := path; at != ""; {
		if _, exists := entries[at]; exists {
			return at
		}
		if cut, isElement := strings.CutSuffix(at, "[]"); isElement {
			at = cut
			continue
		}
		at = at[:max(strings.LastIndex(at, "."), 0)]
	}
	return ""
}
