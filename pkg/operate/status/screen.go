package status

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Screen draws lines on a terminal, over those that it has drawn before. The lines before them stay.
type Screen struct {
	Out io.Writer
	// drawn are the lines on the terminal, which had this size.
	drawn         []string
	width, height int
}

// Draw replaces the drawn lines. A terminal that is too low shows the first lines, and how many are missing. Lines must
// be narrower than the terminal.
func (s *Screen) Draw(lines []string, width, height int) error {
	if most := max(height-1, 1); len(lines) > most {
		missing := len(lines) - most + 1
		lines = append(slices.Clone(lines[:most-1]), fmt.Sprintf("and %d more lines", missing))
	}
	if slices.Equal(lines, s.drawn) && width == s.width && height == s.height {
		return nil
	}
	var out strings.Builder
	if up := min(s.rows(width), max(height-1, 0)); up > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", up)
	}
	out.WriteString("\r")
	for _, line := range lines {
		out.WriteString(line + "\x1b[K\r\n")
	}
	out.WriteString("\x1b[J")
	s.drawn, s.width, s.height = slices.Clone(lines), width, height
	_, err := io.WriteString(s.Out, out.String())
	return err
}

// rows is the number of rows that the drawn lines fill. A terminal that has become narrower has wrapped them.
func (s *Screen) rows(width int) int {
	rows := 0
	for _, line := range s.drawn {
		rows++
		if runes := visible(line); width > 0 && runes > width {
			rows += (runes - 1) / width
		}
	}
	return rows
}

// colours finds the sequences that change the colour of a terminal.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// visible is the number of runes of a line without its colours.
func visible(line string) int { return utf8.RuneCountInString(colours.ReplaceAllString(line, "")) }
