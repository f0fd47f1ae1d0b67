package edit

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	nodes "go.yaml.in/yaml/v3"
)

// Limits of a text. A few bytes can stand for many.
const (
	// mostDocuments is enough for a Cluster, the machine configs of 200 pools, and some empty documents.
	mostDocuments = 250
	// mostExpanded limits the bytes of a document in which values replace the aliases.
	mostExpanded = 4 << 20
	// nodeSize is about what a value without content needs.
	nodeSize = 8
	// deepest is how many objects and lists can contain each other.
	deepest = 100
	// mostProblems is how many problems a text has at most. To find the line of one takes time.
	mostProblems = 100
	// longestField is the longest path in a problem. The line of a longer one is enough.
	longestField = 500
	// mostParsed limits how many bytes are parsed to find the lines of broken documents.
	mostParsed = 2 << 20
	// longestOpen is how many lines after a broken one must not repair it. A bracket can close some lines later.
	longestOpen = 10
)

// first returns the first problems of many.
func first(problems []Problem) []Problem {
	problems = problems[:min(len(problems), mostProblems)]
	for i := range problems {
		if len(problems[i].Field) > longestField {
			problems[i].Field = ""
		}
	}
	return problems
}

// split returns the documents of a text. A line that separates documents is the first line of the next one.
func split(data []byte) [][]byte {
	var out [][]byte
	begin, at := 0, 0
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte("---"))
		if ok && at > 0 && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			out = append(out, data[begin:at])
			begin = at
		}
		at += len(line)
	}
	return append(out, data[begin:])
}

// endLine returns the line that ends a document, or the first one.
func endLine(data []byte) int {
	number := 0
	for line := range bytes.Lines(data) {
		if number++; bytes.HasPrefix(line, []byte("...")) {
			return number
		}
	}
	return 1
}

// isEmpty reports whether a document has no value.
func (d document) isEmpty() bool {
	if len(d.root.Content) == 0 {
		return true
	}
	value := d.root.Content[0]
	return value.Kind == nodes.ScalarNode && value.ShortTag() == "!!null" &&
		slices.Contains([]string{"", "~", "null", "Null", "NULL"}, value.Value)
}

// excess says why a document is too large to read. It returns an empty text for all others.
func (d document) excess() string {
	e := expansion{sizes: map[*nodes.Node]int{}}
	size := e.of(d.root, 0)
	switch {
	case e.depth > deepest:
		return fmt.Sprintf("more than %d objects and lists contain each other", deepest)
	case e.hasAlias && size > mostExpanded:
		return "the aliases stand for more than 4 MiB; write the values in their places"
	}
	return ""
}

// expansion computes how large a document is when values replace its aliases.
type expansion struct {
	sizes    map[*nodes.Node]int // of values with anchors
	hasAlias bool
	depth    int
}

func (e *expansion) of(node *nodes.Node, depth int) int {
	e.depth = max(e.depth, depth)
	if node.Kind == nodes.AliasNode {
		e.hasAlias = true
		node = node.Alias
	}
	if size, isKnown := e.sizes[node]; isKnown {
		return size
	}
	if node.Anchor != "" {
		e.sizes[node] = mostExpanded + 1 // for an alias in its own value
	}
	size := nodeSize + len(node.Value)
	for _, child := range node.Content {
		size = min(size+e.of(child, depth+1), mostExpanded+1)
	}
	if node.Anchor != "" {
		e.sizes[node] = size
	}
	return size
}

// repeated lists the keys that mappings have twice.
func (d document) repeated() []Problem {
	var out []Problem
	d.repeatedIn(d.root, func() string { return "" }, &out)
	return out
}

// repeatedIn adds to a list. path is computed only for a problem, because it can be long.
func (d document) repeatedIn(node *nodes.Node, path func() string, out *[]Problem) {
	seen := map[string]bool{}
	for i, child := range node.Content {
		if len(*out) >= mostProblems {
			return
		}
		at := path
		if node.Kind == nodes.SequenceNode {
			at = func() string { return fmt.Sprintf("%s[%d]", path(), i) }
		}
		if node.Kind == nodes.MappingNode {
			if i%2 == 0 {
				continue
			}
			key := node.Content[i-1]
			at = func() string { return join(path(), key.Value) }
			isScalar := key.Kind == nodes.ScalarNode
			if isScalar && seen[key.Value] {
				*out = append(*out, Problem{Line: d.skipped + key.Line, Column: key.Column, Field: at(),
					Message: "the field is there twice"})
			}
			seen[key.Value] = seen[key.Value] || isScalar
		}
		d.repeatedIn(child, at, out)
	}
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

var lineOfParser = regexp.MustCompile(`^line \d+: `)

// broken is the message of an error of the YAML parser. The parser names the line in which the broken part begins, or
// the one before it.
func broken(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	return "the YAML is not valid: " + lineOfParser.ReplaceAllString(text, "")
}

// brokenLine returns the first line with which a document cannot be parsed, while the lines before it can. Behind many
// broken documents, it returns the last line.
func (t *Text) brokenLine(data []byte) int {
	var ends []int
	for line := range bytes.Lines(data) {
		ends = append(ends, len(line))
		if n := len(ends); n > 1 {
			ends[n-1] += ends[n-2]
		}
	}
	parses := func(lines int) bool {
		t.parsed += ends[lines-1]
		return nodes.Unmarshal(data[:ends[lines-1]], &nodes.Node{}) == nil
	}
	good, bad := 0, len(ends)
	for t.parsed < mostParsed {
		for bad-good > 1 && t.parsed < mostParsed {
			if middle := (good + bad) / 2; parses(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		repaired := 0
		for next := bad + 1; next < min(bad+longestOpen, len(ends)) && repaired == 0; next++ {
			if parses(next) {
				repaired = next
			}
		}
		if repaired == 0 {
			break
		}
		good, bad = repaired, len(ends)
	}
	return max(bad, 1)
}
