package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Form is how rows are printed.
type Form struct {
	Now time.Time
	// Colour gives states a colour.
	Colour bool
	// Wide adds columns.
	Wide bool
	// Namespaces adds the column NAMESPACE to a list.
	Namespaces bool
	// Width cuts lines. 0 cuts none.
	Width int
}

// paint is a colour of a terminal.
type paint string

// Colours, as ECMA-48 numbers them.
const (
	plain  paint = ""
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	cyan   paint = "36"
	bold   paint = "1"
)

// paints are the colours of states.
var paints = map[State]paint{
	Ready: green, Running: green, Waiting: yellow, Creating: yellow, Joining: yellow, Failed: red, Unhealthy: red,
	Paused: cyan, Deleting: cyan,
}

// cell is a field of a table.
type cell struct {
	text  string
	paint paint
}

func stateCell(state State) cell { return cell{string(state), paints[state]} }

// Lines returns a table with a line for each cluster.
func (f *Fleet) Lines(form Form) []string {
	if len(f.Items) == 0 {
		return nil
	}
	names := []string{"NAME", "STATE", "VERSION", "MACHINES", "SINCE"}
	if form.Wide {
		names = append(names, "AGE", "ID")
	}
	if form.Namespaces {
		names = slices.Insert(names, 0, "NAMESPACE")
	}
	rows := [][]cell{headings(append(names, "WAITS FOR")...)}
	for i := range f.Items {
		e := &f.Items[i]
		row := []cell{{text: e.Name}, stateCell(e.State), {text: e.version()}, {text: e.Machines.text()},
			{text: form.age(e.Since)}}
		if form.Wide {
			row = append(row, cell{text: form.age(&e.Created)}, cell{text: e.ID})
		}
		if form.Namespaces {
			row = slices.Insert(row, 0, cell{text: e.Namespace})
		}
		rows = append(rows, append(row, cell{text: e.Message}))
	}
	return append(form.table(rows), form.notes(f.Notes)...)
}

func (c *Cluster) version() string {
	if c.Imported {
		return cmp.Or(c.Version, "imported")
	}
	return c.Version
}

// text is the number of ready machines, and of those that are wanted.
func (c *Count) text() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", c.Ready, c.Wanted)
}

// Lines returns what the cluster waits for, its pools and machines as a tree, and the first broken link.
func (t *Tree) Lines(form Form) []string {
	return slices.Concat(t.headline(form), t.table(form), t.advice(form), form.notes(t.Notes))
}

func (t *Tree) headline(form Form) []string {
	c := &t.Cluster
	head := []cell{{text: "Cluster " + c.Namespace + "/" + c.Name + "  "}, stateCell(c.State)}
	if age := form.age(c.Since); age != "" {
		head = append(head, cell{text: " for " + age})
	}
	if version := c.version(); version != "" {
		head = append(head, cell{text: "  " + version})
	}
	return append([]string{form.line(head...)}, form.wrap("  ", "  ", c.Message)...)
}

func (t *Tree) table(form Form) []string {
	if len(t.Groups) == 0 {
		return nil
	}
	names := []string{"NAME", "STATE", "SINCE"}
	if form.Wide {
		names = append(names, "VERSION", "NODE", "ADDRESS")
	}
	rows := [][]cell{headings(append(names, "WAITS FOR")...)}
	add := func(name string, state cell, since *time.Time, message string, wide ...string) {
		row := []cell{{text: name}, state, {text: form.age(since)}}
		if form.Wide {
			for _, text := range append(wide, make([]string, 3-len(wide))...) {
				row = append(row, cell{text: text})
			}
		}
		rows = append(rows, append(row, cell{text: message}))
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		add(g.title(), cell{text: g.Count.text()}, nil, g.waitsFor())
		for j := range g.Machines {
			m := &g.Machines[j]
			add(joint(j == len(g.Machines)-1)+m.Name, stateCell(m.State), m.Since, m.waitsFor(), m.Version, m.Node,
				first(m.Addresses))
		}
	}
	return append([]string{""}, form.table(rows)...)
}

// title describes a group. The machines of a cluster without pools may have different roles.
func (g *Group) title() string {
	switch {
	case g.Name == "":
		return "Existing hosts"
	case g.Pool == nil:
		return "Pool " + g.Name
	}
	return "Pool " + g.Name + " (" + strings.Join(g.Pool.Roles, ", ") + ")"
}

func (g *Group) waitsFor() string {
	switch {
	case g.Name != "" && g.Pool == nil:
		return "The pool is not in the spec any more"
	case g.Pool != nil && g.Pool.Paused:
		return "The pool is paused: its machines get no changes"
	}
	return ""
}

// advice says what is broken and what to do.
func (t *Tree) advice(form Form) []string {
	l := t.Broken
	if l == nil {
		return nil
	}
	head := "Broken: " + string(l.Name) + " (" + l.Object + ")"
	if l.Since != nil {
		head += " for " + form.age(l.Since)
	}
	out := []string{"", form.line(cell{head, bold})}
	why := strings.TrimSuffix(strings.TrimPrefix(l.Reason+": "+l.Why, ": "), ": ")
	out = append(out, form.wrap("  What:  ", "         ", l.What)...)
	out = append(out, form.wrap("  Why:   ", "         ", why)...)
	label := "  Do:    "
	for _, do := range l.Do {
		out = append(out, form.wrap(label, "         ", do)...)
		label = "         "
	}
	return out
}

func (form *Form) notes(notes []string) []string {
	out := make([]string, 0, len(notes))
	for _, note := range notes {
		out = append(out, form.wrap("Note: ", "      ", note)...)
	}
	return out
}

func headings(names ...string) []cell {
	out := make([]cell, 0, len(names))
	for _, name := range names {
		out = append(out, cell{text: name})
	}
	return out
}

// table aligns the cells of rows. An empty cell is a dash, except in the last column.
func (form *Form) table(rows [][]cell) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i].text = printable(row[i].text)
			if row[i].text == "" && i < len(row)-1 {
				row[i].text = "-"
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	out := make([]string, 0, len(rows))
	for _, row := range rows {
		for i := range row[:len(row)-1] {
			row[i].text += strings.Repeat(" ", widths[i]+2-utf8.RuneCountInString(row[i].text))
		}
		out = append(out, form.line(row...))
	}
	return out
}

// Fit returns a line for people, cut to the width.
func (form *Form) Fit(text string) string { return form.line(cell{text: text}) }

// line joins cells, cuts the line and adds colours.
func (form *Form) line(cells ...cell) string {
	var out strings.Builder
	for _, c := range form.cut(cells) {
		word := strings.TrimRight(c.text, " ")
		if form.Colour && c.paint != plain && word != "" {
			c.text = "\x1b[" + string(c.paint) + "m" + word + "\x1b[0m" + c.text[len(word):]
		}
		out.WriteString(c.text)
	}
	return strings.TrimRight(out.String(), " ")
}

// cut returns cells that fit into the width together. Dots tell that the line continues.
func (form *Form) cut(cells []cell) []cell {
	out, left := slices.Clone(cells), form.Width
	total := 0
	for i := range out {
		out[i].text = printable(out[i].text)
		total += utf8.RuneCountInString(out[i].text)
	}
	if form.Width <= 0 || total <= form.Width {
		return out
	}
	for i := range out {
		text := []rune(out[i].text)
		if len(text) >= left {
			out[i].text = string(text[:max(left-1, 0)]) + "…"
			return out[:i+1]
		}
		left -= len(text)
	}
	return out
}

// wrap breaks a text between words, so that its lines fit into the width. It returns no line for an empty text.
func (form *Form) wrap(first, further, text string) []string {
	var out []string
	line, words := first, strings.Fields(printable(text))
	for i, word := range words {
		if i > 0 && form.Width > 0 && utf8.RuneCountInString(line+word) > form.Width {
			out, line = append(out, form.line(cell{text: line})), further
		}
		line += word + " "
	}
	if len(words) == 0 {
		return nil
	}
	return append(out, form.line(cell{text: line}))
}

// printable returns one line without control characters, which could change the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

func (form *Form) age(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(form.Now.Sub(*at), 0))
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func joint(last bool) string {
	if last {
		return "`- "
	}
	return "|- "
}
