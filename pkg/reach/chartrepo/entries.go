package chartrepo

import (
	"bytes"
	"errors"

	"sigs.k8s.io/yaml"
)

const (
	// wholeLimit is the size of YAML that is read at once. Reading needs a hundred times the size.
	wholeLimit = 1 << 20
	// entriesLimit and entryLimit are the sizes of all entries of a chart in a large index, and of one entry.
	entriesLimit = 4 << 20
	entryLimit   = 256 << 10
)

var (
	errIndex     = errors.New("is not valid")
	errIndexForm = errors.New("is larger than 1 MiB and not in block form: create it with helm repo index")
	errEntries   = errors.New("has more than 4 MiB about the chart: remove old versions")
)

// entriesOf returns the entries of a chart in an index.yaml. A small index may have any form of YAML. Of a large one,
// only the lines about the chart are read, entry by entry, so the memory does not depend on the size of the index.
func entriesOf(text []byte, chart string) ([]*entry, error) {
	if len(text) <= wholeLimit {
		var all index
		if yaml.Unmarshal(text, &all) != nil {
			return nil, errIndex
		}
		return all.Entries[chart], nil
	}
	charts := section(text, "entries")
	if charts == nil {
		return nil, errIndexForm
	}
	lines := section(charts, chart)
	if len(lines) > entriesLimit {
		return nil, errEntries
	}
	var found []*entry
	for _, item := range items(lines) {
		var one []*entry
		if len(item) <= entryLimit && yaml.Unmarshal(item, &one) == nil {
			found = append(found, one...)
		}
	}
	if found == nil && lines != nil {
		return nil, errIndex
	}
	return found, nil
}

// section returns the lines below a key of a block mapping in YAML. It returns nil if the key is missing, or if its
// value begins on the line of the key.
func section(text []byte, key string) []byte {
	depth, start, end := -1, -1, 0
	for line := range bytes.Lines(text) {
		begin := end
		end += len(line)
		indent, content := indentOf(line)
		if len(content) == 0 || content[0] == '#' {
			continue
		}
		if depth < 0 {
			depth = indent
		}
		switch {
		case indent > depth, indent == depth && isItem(content):
		case start >= 0:
			return text[start:begin]
		case indent == depth && isKey(content, key):
			start = end
		}
	}
	if start < 0 {
		return nil
	}
	return text[start:]
}

// items divides the lines of a block sequence in YAML.
func items(text []byte) [][]byte {
	var found [][]byte
	depth, start, end := -1, 0, 0
	for line := range bytes.Lines(text) {
		begin := end
		end += len(line)
		indent, content := indentOf(line)
		if !isItem(content) || depth >= 0 && indent != depth {
			continue
		}
		if depth >= 0 {
			found = append(found, text[start:begin])
		}
		depth, start = indent, begin
	}
	if depth < 0 {
		return nil
	}
	return append(found, text[start:])
}

func indentOf(line []byte) (indent int, content []byte) {
	content = bytes.TrimLeft(line, " ")
	return len(line) - len(content), bytes.TrimRight(content, " \r\n")
}

func isItem(content []byte) bool {
	return bytes.Equal(content, []byte("-")) || bytes.HasPrefix(content, []byte("- "))
}

// isKey reports whether a line has a key and no value.
func isKey(content []byte, key string) bool {
	for _, form := range []string{key, `"` + key + `"`, "'" + key + "'"} {
		rest, ok := bytes.CutPrefix(content, []byte(form+":"))
		if ok && (len(rest) == 0 || bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte("#"))) {
			return true
		}
	}
	return false
}
