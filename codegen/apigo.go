package main

import (
	"fmt"
	"go/constant"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// goAPI lists the exports of packages, one line for each name, field and method. It omits names of parameters, comments
// and the order of declarations. buildFlags are for the go command.
func goAPI(dir, module string, patterns, buildFlags []string) ([]string, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports, Dir: dir,
		BuildFlags: buildFlags,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	l := &lister{module: module + "/", promised: map[string]bool{}}
	for _, pkg := range loaded {
		for _, problem := range pkg.Errors {
			return nil, fmt.Errorf("load package %s: %w", pkg.PkgPath, problem)
		}
		l.promised[pkg.PkgPath] = true
	}
	for _, pkg := range loaded {
		l.list(pkg.Types)
	}
	slices.Sort(l.lines)
	return slices.Compact(l.lines), nil
}

// lister collects lines.
type lister struct {
	module   string
	promised map[string]bool
	pkg      string
	lines    []string
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, "pkg "+l.pkg+", "+fmt.Sprintf(format, args...))
}

func (l *lister) list(pkg *types.Package) {
	l.pkg = strings.TrimPrefix(pkg.Path(), l.module)
	for _, name := range pkg.Scope().Names() {
		switch object := pkg.Scope().Lookup(name).(type) {
		case nil:
		case *types.Const:
			if object.Exported() {
				l.add("const %s %s = %s", name, l.text(object.Type()), value(object.Val()))
			}
		case *types.Var:
			if object.Exported() {
				l.add("var %s %s", name, l.text(object.Type()))
			}
		case *types.Func:
			if object.Exported() {
				l.add("func %s%s", name, strings.TrimPrefix(l.text(object.Type()), "func"))
			}
		case *types.TypeName:
			if object.Exported() {
				l.typeName(object)
			}
		}
	}
}

func value(v constant.Value) string {
	if v.Kind() == constant.Float {
		return v.String()
	}
	return v.ExactString()
}

// typeName lists a type and its methods. If the type is an alias of a type in a package without promises, the alias
// promises the exported parts of that type.
func (l *lister) typeName(object *types.TypeName) {
	named, ok := types.Unalias(object.Type()).(*types.Named)
	switch {
	case !object.IsAlias():
		l.declared(object.Name(), named)
		l.methods(object.Name(), named)
	case ok && l.hidden(named):
		l.declared(object.Name(), named)
	default:
		l.add("type %s = %s", object.Name(), l.text(types.Unalias(object.Type())))
	}
}

// hidden reports whether a type is in a package of the module without promises.
func (l *lister) hidden(named *types.Named) bool {
	pkg := named.Obj().Pkg()
	return pkg != nil && strings.HasPrefix(pkg.Path(), l.module) && !l.promised[pkg.Path()]
}

func (l *lister) declared(name string, named *types.Named) {
	parameters := l.parameters(named.TypeParams())
	of, ok := named.Underlying().(*types.Struct)
	if !ok {
		l.add("type %s%s %s", name, parameters, l.text(named.Underlying()))
		return
	}
	l.add("type %s%s struct", name, parameters)
	for i := range of.NumFields() {
		l.field(name, of.Field(i), of.Tag(i))
	}
}

func (l *lister) methods(name string, named *types.Named) {
	if types.IsInterface(named) {
		return
	}
	for method := range named.Methods() {
		if !method.Exported() {
			continue
		}
		receiver := name
		if _, pointer := method.Signature().Recv().Type().(*types.Pointer); pointer {
			receiver = "*" + name
		}
		l.add("method (%s) %s%s", receiver, method.Name(), strings.TrimPrefix(l.text(method.Type()), "func"))
	}
}

// field lists a field of a struct with its name on the wire.
func (l *lister) field(name string, field *types.Var, tag string) {
	if !field.Exported() {
		return
	}
	declared := field.Name() + " " + l.text(field.Type())
	if field.Embedded() {
		declared = "embedded " + l.text(field.Type())
	}
	if wire, ok := reflect.StructTag(tag).Lookup("json"); ok {
		declared += fmt.Sprintf(" json:%q", wire)
	}
	l.add("type %s struct, %s", name, declared)
}

func (l *lister) parameters(list *types.TypeParamList) string {
	var out []string
	for parameter := range list.TypeParams() {
		out = append(out, parameter.Obj().Name()+" "+l.text(parameter.Constraint()))
	}
	if out == nil {
		return ""
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// text returns a type without names of parameters.
func (l *lister) text(t types.Type) string {
	switch t := t.(type) {
	case *types.Pointer:
		return "*" + l.text(t.Elem())
	case *types.Slice:
		return "[]" + l.text(t.Elem())
	case *types.Map:
		return "map[" + l.text(t.Key()) + "]" + l.text(t.Elem())
	case *types.Chan:
		return []string{"chan ", "chan<- ", "<-chan "}[t.Dir()] + l.text(t.Elem())
	case *types.Signature:
		return "func(" + l.tuple(t.Params(), t.Variadic()) + ")" + l.results(t.Results())
	case *types.Interface:
		return l.interfaceText(t)
	default:
		return types.TypeString(t, func(pkg *types.Package) string { return strings.TrimPrefix(pkg.Path(), l.module) })
	}
}

func (l *lister) tuple(tuple *types.Tuple, variadic bool) string {
	var out []string
	for i := range tuple.Len() {
		text := l.text(tuple.At(i).Type())
		if variadic && i == tuple.Len()-1 {
			text = "..." + strings.TrimPrefix(text, "[]")
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (l *lister) results(results *types.Tuple) string {
	switch results.Len() {
	case 0:
		return ""
	case 1:
		return " " + l.tuple(results, false)
	default:
		return " (" + l.tuple(results, false) + ")"
	}
}

// interfaceText returns an interface on one line, because an additional method breaks its implementations.
func (l *lister) interfaceText(t *types.Interface) string {
	var out []string
	for embedded := range t.EmbeddedTypes() {
		out = append(out, l.text(embedded))
	}
	for method := range t.ExplicitMethods() {
		out = append(out, method.Name()+strings.TrimPrefix(l.text(method.Type()), "func"))
	}
	slices.Sort(out)
	if out == nil {
		return "interface{}"
	}
	return "interface{ " + strings.Join(out, "; ") + " }"
}
