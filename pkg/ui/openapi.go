package ui

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/operate/status"
)

// object is a JSON object of the document.
type object = map[string]any

// openAPI returns the OpenAPI document of the endpoints.
func openAPI(version string) ([]byte, error) {
	s := &schemas{all: object{}}
	paths := object{}
	for _, each := range endpoints() {
		at := apiPrefix + strings.ReplaceAll(each.path, "...}", "}")
		methods, ok := paths[at].(object)
		if !ok {
			methods = object{}
			paths[at] = methods
		}
		methods[strings.ToLower(each.method)] = s.operation(each)
	}
	s.of(reflect.TypeFor[status.Cluster]()) // the rows of the stream
	s.of(reflect.TypeFor[status.Machine]())
	document := object{
		"openapi": "3.0.3",
		"info": object{"title": "Drover UI", "version": cmp.Or(version, "dev"),
			"description": "All requests act with the rights of the caller. Send a bearer token of the management " +
				"cluster, or the session's cookies; unsafe requests with cookies need header " + csrfHeader + "."},
		"paths": paths,
		"components": object{"schemas": s.all, "securitySchemes": object{
			"bearer": object{"type": "http", "scheme": "bearer"},
			"cookie": object{"type": "apiKey", "in": "cookie", "name": newSessions(Options{}).name},
		}},
		"security": []any{object{"bearer": []any{}}, object{"cookie": []any{}}},
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return data, nil
}

var wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)

// operation describes one endpoint.
func (s *schemas) operation(e endpoint) object {
	var parameters []any
	for _, found := range wildcard.FindAllStringSubmatch(e.path, -1) {
		parameters = append(parameters, object{"name": found[1], "in": "path", "required": true,
			"schema": object{"type": "string"}})
	}
	parameters = append(parameters, parametersIn("query", e.query)...)
	parameters = append(parameters, parametersIn("header", e.headers)...)
	out := object{"summary": e.summary, "responses": object{
		"default": object{"description": "An error", "content": s.content(failureBody{})},
	}}
	responses, _ := out["responses"].(object)
	switch {
	case e.answer == nil:
		responses["204"] = object{"description": "Done"}
	case e.isCreated:
		responses["201"] = object{"description": e.summary, "content": s.content(e.answer)}
	default:
		responses["200"] = object{"description": e.summary, "content": s.content(e.answer)}
	}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if e.body != nil {
		out["requestBody"] = object{"required": true, "content": s.content(e.body)}
	}
	if e.isPublic {
		out["security"] = []any{}
	}
	return out
}

func parametersIn(in string, some []parameter) []any {
	var out []any
	for _, each := range some {
		out = append(out, object{"name": each.name, "in": in, "description": each.description,
			"schema": object{"type": "string"}})
	}
	return out
}

// content describes a body: of a Go type, or of a media type.
func (s *schemas) content(body any) object {
	if mediaType, ok := body.(string); ok {
		mediaType, _, _ = strings.Cut(mediaType, ";")
		return object{mediaType: object{"schema": object{}}}
	}
	return object{anyJSON: object{"schema": s.of(reflect.TypeOf(body))}}
}

// schemas makes schemas from Go types.
type schemas struct{ all object }

var (
	timeType     = reflect.TypeFor[time.Time]()
	metaTimeType = reflect.TypeFor[metav1.Time]()
	textType     = reflect.TypeFor[encoding.TextMarshaler]()
	jsonType     = reflect.TypeFor[json.Marshaler]()
)

// of returns the schema of a type. A named struct becomes a component, so types may contain themselves.
func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == timeType, t == metaTimeType:
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		inner := s.of(t.Elem())
		if _, isReference := inner["$ref"]; isReference {
			return object{"allOf": []any{inner}, "nullable": true}
		}
		inner["nullable"] = true
		return inner
	case t.Implements(textType):
		return object{"type": "string"}
	case t.Implements(jsonType):
		return object{}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.component(t)
	default:
		return simple(t.Kind())
	}
}

// simple returns the schema of a type without parts. An interface can hold anything.
func simple(kind reflect.Kind) object {
	switch kind {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	default:
		return object{}
	}
}

var outsideNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// component adds a struct to the components and returns a reference to it.
func (s *schemas) component(t reflect.Type) object {
	if t.Name() == "" {
		return s.structure(t)
	}
	name := outsideNames.ReplaceAllString(path.Base(t.PkgPath())+"."+path.Base(t.Name()), "")
	if _, ok := s.all[name]; !ok {
		s.all[name] = object{}
		s.all[name] = s.structure(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// structure describes the fields of a struct as encoding/json writes them.
func (s *schemas) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	s.fields(t, properties, &required)
	out := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		isInline := field.Anonymous && name == "" || strings.Contains(options, "inline")
		switch {
		case name == "-" || !field.IsExported() && !isInline:
			continue
		case isInline && field.Type.Kind() == reflect.Struct:
			s.fields(field.Type, properties, required)
			continue
		}
		name = cmp.Or(name, field.Name)
		properties[name] = s.of(field.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}
