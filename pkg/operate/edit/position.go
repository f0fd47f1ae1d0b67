package edit

import (
	"strconv"
	"strings"

	nodes "go.yaml.in/yaml/v3"
)

// at fills in the position of a problem: of its field, or of the nearest field around it that the text has.
func (Text) at(d document, p Problem) Problem {
	if p.Line > 0 {
		return p
	}
	found := nearest(d.root, steps(p.Field))
	p.Line, p.Column = d.skipped+max(found.Line, 1), found.Column
	return p
}

// steps returns the parts of a path such as spec.rkeConfig.machinePools[0].labels[a.b/c].
func steps(path string) []string {
	var out []string
	for path != "" {
		end := strings.IndexAny(path, ".[")
		switch {
		case path[0] == '[':
			inside, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, strings.Trim(inside, `"'`)), strings.TrimPrefix(rest, ".")
		case end < 0:
			return append(out, path)
		default:
			if end > 0 {
				out = append(out, path[:end])
			}
			path = strings.TrimPrefix(path[end:], ".")
		}
	}
	return out
}

// nearest returns the key or the item at a path, or the last one on the way to it.
func nearest(node *nodes.Node, path []string) *nodes.Node {
	best := node
	for {
		for len(node.Content) > 0 && node.Kind == nodes.DocumentNode {
			node = node.Content[0]
			best = node
		}
		if node.Kind == nodes.AliasNode && node.Alias != nil {
			node = node.Alias
		}
		key, value, used := child(node, path)
		if value == nil {
			return best
		}
		best, node, path = key, value, path[used:]
	}
}

// child returns the key and the value of the next step, and how many parts of the path the step has. A key can contain
// dots.
func child(node *nodes.Node, path []string) (key, value *nodes.Node, used int) {
	if len(path) == 0 {
		return nil, nil, 0
	}
	if node.Kind == nodes.SequenceNode {
		return item(node, path[0])
	}
	if node.Kind != nodes.MappingNode {
		return nil, nil, 0
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if steps := stepsOf(node.Content[i].Value, path); steps > used {
			key, value, used = node.Content[i], node.Content[i+1], steps
		}
	}
	return key, value, used
}

// stepsOf returns how many steps of a path a key has, 0 if the path leads elsewhere.
func stepsOf(key string, path []string) int {
	for i, step := range path {
		rest, ok := strings.CutPrefix(key, step)
		if !ok {
			return 0
		}
		if rest == "" {
			return i + 1
		}
		if key, ok = strings.CutPrefix(rest, "."); !ok {
			return 0
		}
	}
	return 0
}

// item returns an item of a list: by its index, or by the name that it has.
func item(list *nodes.Node, step string) (key, value *nodes.Node, used int) {
	if index, err := strconv.Atoi(step); err == nil {
		if index < 0 || index >= len(list.Content) {
			return nil, nil, 0
		}
		return list.Content[index], list.Content[index], 1
	}
	for _, each := range list.Content {
		if _, name, _ := child(each, []string{"name"}); name != nil && name.Value == step {
			return each, each, 1
		}
	}
	return nil, nil, 0
}
