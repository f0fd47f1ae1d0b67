package status

import (
	"slices"
	"strings"
	"time"
)

// Changes reports how states change, for outputs that are not a terminal.
type Changes struct {
	told map[string]string
}

// Next returns a line for each object whose state or message has changed since the last call.
func (c *Changes) Next(clusters []Cluster, machines []Machine, now time.Time) []string {
	said := make(map[string]string, len(clusters)+len(machines))
	for i := range clusters {
		row := &clusters[i]
		said["Cluster "+row.Namespace+"/"+row.Name] = sentence(row.State, row.Message)
	}
	for i := range machines {
		row := &machines[i]
		said["Machine "+row.Namespace+"/"+row.Name] = sentence(row.State, row.waitsFor())
	}
	var out []string
	stamp := now.UTC().Format(time.RFC3339) + " "
	for name, text := range said {
		if c.told[name] != text {
			out = append(out, stamp+printable(name+" "+text))
		}
	}
	for name := range c.told {
		if _, stays := said[name]; !stays {
			out = append(out, stamp+printable(name+" is gone"))
		}
	}
	c.told = said
	slices.Sort(out)
	return out
}

func sentence(state State, message string) string {
	return strings.TrimSuffix(string(state)+": "+message, ": ")
}
