package applyset

import (
	"context"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Field is a field of an object that another program sets.
type Field struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	// Path is a JSON pointer, such as /spec/replicas.
	Path string
}

type keptKey struct{}

// KeepFields returns a context for Apply. Apply with it leaves the fields of existing objects as they are. A desired
// object with the value of such a field from a cache is not enough: the other program may write the field after the
// cache was read, and Apply would write the former value back.
func KeepFields(ctx context.Context, fields ...Field) context.Context {
	return context.WithValue(ctx, keptKey{}, fields)
}

// KeptFields returns the fields of KeepFields.
func KeptFields(ctx context.Context) []Field {
	fields, _ := ctx.Value(keptKey{}).([]Field)
	return fields
}

// keeping leaves the fields out of all comparisons.
func keeping(a apply.Apply, fields []Field) apply.Apply {
	for _, field := range fields {
		a = a.WithDiffPatch(field.Kind, field.Namespace, field.Name,
			fmt.Appendf(nil, `[{"op":"remove","path":%q}]`, field.Path))
	}
	return a
}
