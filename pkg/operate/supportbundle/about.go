package supportbundle

import (
	"fmt"
	"regexp"
	"strings"
)

// Cluster names a Cluster.
type Cluster struct{ Namespace, Name string }

// namesIn matches words that can be names of objects.
var namesIn = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9.-]*`)

// About removes the lines that name another cluster from a text of the server. It also removes lines with a name
// derived from another cluster, or with a namespace that holds only other clusters. The last line gives the number of
// removed lines.
func About(text string, chosen, others []Cluster) string {
	if len(others) == 0 {
		return text
	}
	// The value says whether the name may be shown.
	names, namespaces := map[string]bool{}, map[string]bool{}
	for _, c := range others {
		names[c.Name], namespaces[c.Namespace] = false, false
	}
	for _, c := range chosen {
		names[c.Name], namespaces[c.Namespace] = true, true
	}
	var out strings.Builder
	left := 0
	for line := range strings.Lines(text) {
		if namesAnother(line, names, namespaces) {
			left++
			continue
		}
		out.WriteString(line)
	}
	if left > 0 {
		fmt.Fprintf(&out, "# %d lines about other clusters are left out\n", left)
	}
	return out.String()
}

func namesAnother(line string, names, namespaces map[string]bool) bool {
	for _, word := range namesIn.FindAllString(line, -1) {
		word = strings.TrimRight(word, ".-")
		if told, known := namespaces[word]; known && !told {
			return true
		}
		// With clusters demo and demo-two, demo-two-servers-x belongs to demo-two.
		for part := word; part != ""; {
			if told, known := names[part]; known {
				if !told {
					return true
				}
				break
			}
			part = part[:max(0, strings.LastIndexAny(part, "-"))]
		}
	}
	return false
}
