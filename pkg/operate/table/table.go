// Package table prints aligned tables for terminals. Text from clusters cannot control the terminal.
package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Row writes the cells of a table's line. An empty cell is shown as a dash. Control characters and line breaks are
// replaced.
func Row(w io.Writer, cells ...string) {
	for i, cell := range cells {
		cell = strings.Join(strings.Fields(Printable(cell)), " ")
		if cell == "" {
			cell = "-"
		}
		cells[i] = cell
	}
	_, _ = fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// Line writes a line of a table below a heading.
func Line(w io.Writer, cells ...string) {
	_, _ = io.WriteString(w, "  ")
	Row(w, cells...)
}

// Heading begins a part of the output. It starts a new alignment of columns.
func Heading(w io.Writer, text string) {
	if aligned, ok := w.(*tabwriter.Writer); ok {
		_ = aligned.Flush()
	}
	_, _ = fmt.Fprintln(w, "\n"+text)
}

// Print aligns the columns of what fill writes.
func Print(out io.Writer, fill func(w io.Writer)) error {
	aligned := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fill(aligned)
	return aligned.Flush()
}

// Printable replaces control characters by spaces.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
