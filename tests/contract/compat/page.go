package compat

import (
	"fmt"
	"slices"
	"strings"
)

// width is the longest line of the page outside of tables.
const width = 118

const intro = `# Compatibility with Rancher

This page is for users who come from Rancher with manifests, scripts and dashboards. It says what Drover does with each
field, label, annotation and condition of Rancher's provisioning API. Most of them work. The tables list the others.

| Verdict | Meaning |
|---|---|
| works | Drover does the same as Rancher |
| works differently | Drover does something else or more, and the table says what |
| no effect | Drover accepts the name and ignores it, or never writes it. The table says what to do instead |
| not there | Drover does not have it |
| only in Drover | Rancher does not have it |

[adopt.md](adopt.md) says how to take over the clusters of Rancher. A test compares this page with the code.
`

// page returns docs/compatibility.md.
func page() string {
	var b strings.Builder
	b.WriteString("<!-- Written from tests/contract/compat; do not edit. -->\n\n" + intro)
	for _, k := range kinds {
		b.WriteString("\n## " + title(k) + "\n\n" + wrap("", strings.TrimSpace("`"+k.Group+"`. "+k.Text)))
		writeTable(&b, "Field", k.Rows)
		writeList(&b, k.Works)
	}
	b.WriteString("\n## Kinds that Drover does not have\n")
	writeTable(&b, "Kind", absentKinds)
	for _, n := range append(slices.Clone(names), endpoints) {
		writeNames(&b, n)
	}
	b.WriteString("\n## Settings\n\nFlags of the server ([settings.md](reference/settings.md)) replace Rancher's " +
		"settings. Features have no\nreplacement: what Drover has is always on.\n\n| Setting | Drover |\n|---|---|\n")
	for _, s := range settings {
		text := s.Text
		if s.Flag != "" {
			text = "`" + s.Flag + "`"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", code(strings.Split(s.Names, ", ")), text)
	}
	return b.String()
}

// title is the heading of a kind. Two kinds have the name Cluster.
func title(k Kind) string {
	if k.Name == "Cluster" && k.Group != cluster.Group {
		return "Management Cluster"
	}
	return strings.NewReplacer("<", "", ">", "").Replace(k.Name)
}

func writeTable(b *strings.Builder, head string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | Verdict | What Drover does |\n|---|---|---|\n", head)
	for _, row := range rows {
		fmt.Fprintf(b, "| %s | %s | %s |\n", code(strings.Fields(row.Names)), row.Verdict, row.Text)
	}
}

func writeNames(b *strings.Builder, n Names) {
	fmt.Fprintf(b, "\n## %s\n", n.Title)
	if n.Text != "" {
		b.WriteString("\n" + wrap("", n.Text))
	}
	b.WriteString("\n| Name | On | Verdict | What Drover does |\n|---|---|---|---|\n")
	var works []string
	for _, row := range n.Rows {
		if row.Verdict == Works {
			works = append(works, row.On+": "+row.Names)
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", code(strings.Fields(row.Names)), row.On, row.Verdict, row.Text)
	}
	writeList(b, works)
}

// writeList writes what works, in a block that is easy to search.
func writeList(b *strings.Builder, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\nThese work:\n\n```text\n")
	for _, line := range lines {
		b.WriteString(wrap("    ", line))
	}
	b.WriteString("```\n")
}

// wrap breaks a line at spaces. The following lines begin with an indent.
func wrap(indent, text string) string {
	var b strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

// code sets names in code. A name with a placeholder in pointed brackets would otherwise be HTML.
func code(names []string) string {
	return "`" + strings.Join(names, "`, `") + "`"
}
