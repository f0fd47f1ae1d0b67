package thrift

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawSpec draws a spec from few fields and values, so that managers meet. Some are wishes that leave the check in
// doubt.
func drawSpec(t *rapid.T) map[string]any {
	names := rapid.SampledFrom([]string{"a", "b"})
	numbers := rapid.SampledFrom([]any{int64(0), int64(1), 1.0, 1.5})
	scalars := rapid.OneOf(rapid.Map(names, func(s string) any { return s }), numbers)
	inner := rapid.Custom(func(t *rapid.T) any {
		return part(t, map[string]*rapid.Generator[any]{"name": asAny(names), "count": numbers})
	})
	texts := rapid.Custom(func(t *rapid.T) any {
		return part(t, map[string]*rapid.Generator[any]{"a": asAny(names), "b": asAny(names)})
	})
	free := rapid.Custom(func(t *rapid.T) any {
		return part(t, map[string]*rapid.Generator[any]{"a": scalars, "b": rapid.OneOf(scalars, inner, texts),
			"c": rapid.OneOf(list(scalars), list(inner))})
	})
	spec := part(t, map[string]*rapid.Generator[any]{
		"name": asAny(names), "count": numbers, "enabled": asAny(rapid.Bool()), "labels": texts, "selector": texts,
		"args":  list(rapid.OneOf(scalars, free)),
		"tags":  distinct(rapid.SampledFrom([]any{"a", "b", "c"}), ""),
		"inner": inner, "free": free,
		"groups": rapid.Custom(func(t *rapid.T) any {
			return part(t, map[string]*rapid.Generator[any]{"a": inner, "b": inner})
		}),
		"ports":  distinct(items("port", rapid.SampledFrom([]any{int64(1), int64(2), int64(3)}), names), "port"),
		"owners": distinct(items("uid", rapid.SampledFrom([]any{"u", "v", "w"}), names), "uid"),
	})
	if rapid.IntRange(0, 19).Draw(t, "null") == 0 {
		spec["count"] = nil
	}
	return map[string]any{"spec": spec}
}

// part draws values of some of the fields.
func part(t *rapid.T, fields map[string]*rapid.Generator[any]) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if rapid.Bool().Draw(t, name+" given") {
			out[name] = fields[name].Draw(t, name)
		}
	}
	return out
}

func asAny[V any](of *rapid.Generator[V]) *rapid.Generator[any] {
	return rapid.Map(of, func(v V) any { return v })
}

func list(of *rapid.Generator[any]) *rapid.Generator[any] { return asAny(rapid.SliceOfN(of, 0, 2)) }

func items(key string, keys *rapid.Generator[any], names *rapid.Generator[string]) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		item := map[string]any{key: keys.Draw(t, key)}
		if rapid.Bool().Draw(t, "named") {
			item["name"] = names.Draw(t, "name")
		}
		return item
	})
}

// distinct draws lists without two items of one key or value.
func distinct(of *rapid.Generator[any], key string) *rapid.Generator[any] {
	return asAny(rapid.SliceOfNDistinct(of, 0, 3, func(item any) any {
		if fields, ok := item.(map[string]any); ok {
			return fields[key]
		}
		return item
	}))
}

// Whatever managers have done to an object before: an apply that is dropped would change nothing.
func TestRapid_UnchangedIsWhatTheAPIServerLeaves(t *testing.T) {
	dropped, left, sent := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		api, last := newAPI(t), map[string]any{"spec": map[string]any{"name": "a"}}
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			spec := drawSpec(t)
			switch who := rapid.SampledFrom([]string{owner, owner, "other", "updater"}).Draw(t, "who"); who {
			case "updater":
				api.update(object(spec), who)
			case owner:
				last = spec
				fallthrough
			default:
				api.apply(object(spec), who)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "another wish") == 0 {
			last = drawSpec(t)
		}
		live, entries := api.live()
		drop := unchanged(object(last), live, entries, owner)
		api.apply(object(last), owner)
		difference := api.differs(live, entries)
		switch {
		case drop && difference != "":
			t.Fatalf("the API server changes the object or its managedFields:\n%s", difference)
		case drop:
			dropped++
		case difference == "":
			left++
		default:
			sent++
		}
	})
	t.Logf("dropped %d, sent %d, and %d that change nothing", dropped, sent, left)
	if dropped == 0 || sent == 0 {
		t.Error("the draws show nothing")
	}
}
