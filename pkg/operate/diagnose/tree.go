package diagnose

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Print writes a report as a tree in plain ASCII. The first line says what is wrong. The tree has the branches with a
// broken link, down to that link. With all, it has every link of every branch.
func (r *Report) Print(out io.Writer, all bool) {
	p := printer{out: out, now: r.At, all: all}
	p.line("", "", strings.TrimSuffix(r.Tree.Title+": "+string(r.Result)+": "+r.Sentence(), ": "))
	p.branch("", &r.Tree)
	for _, note := range r.Notes {
		p.line("", "", "Note: "+note)
	}
	if r.Result == OK && !all {
		p.line("", "", "Every link works; --all lists them.")
	}
}

type printer struct {
	out io.Writer
	now time.Time
	all bool
}

// branch writes the content of a branch.
func (p *printer) branch(indent string, b *Branch) {
	links, branches := p.chosen(b)
	for i, l := range links {
		last := i == len(links)-1 && len(branches) == 0
		p.link(indent, l, last)
	}
	for i, child := range branches {
		last := i == len(branches)-1
		p.line(indent, joint(last), child.Title)
		p.branch(indent+gap(last), child)
	}
}

// chosen returns the links and branches to print.
func (p *printer) chosen(b *Branch) ([]Link, []*Branch) {
	links := b.Links
	if !p.all {
		links = nil
		if stop := b.stop(); stop >= 0 {
			return b.Links[stop : stop+1], nil
		}
	}
	var branches []*Branch
	for i := range b.Branches {
		if p.all || !b.Branches[i].works() {
			branches = append(branches, &b.Branches[i])
		}
	}
	return links, branches
}

func (p *printer) link(indent string, l Link, last bool) {
	head := string(l.Name) + ": " + string(l.State)
	if l.Since != nil {
		head += " for " + age(p.now.Sub(*l.Since)) + ", since " + l.Since.UTC().Format(time.RFC3339)
	}
	p.line(indent, joint(last), head+"  ("+l.Object+")")
	below := indent + gap(last)
	why := l.Why
	if l.Reason != "" {
		why = strings.TrimSuffix(l.Reason+": "+why, ": ")
	}
	waits := l.WaitsFor
	if len(l.WokenBy) > 0 {
		waits += "; woken by " + strings.Join(l.WokenBy, ", ")
	}
	for _, detail := range [][2]string{{"What:  ", l.What}, {"Why:   ", why}, {"Waits: ", waits}} {
		if detail[1] != "" && l.State != OK {
			p.line(below, "  ", detail[0]+detail[1])
		}
	}
	if !l.held() {
		return
	}
	for i, do := range l.Do {
		label := "Do:    "
		if i > 0 {
			label = "       "
		}
		p.line(below, "  ", label+do)
	}
}

func (p *printer) line(indent, joint, text string) {
	_, _ = fmt.Fprintln(p.out, strings.TrimRight(indent+joint+text, " "))
}

func joint(last bool) string {
	if last {
		return "`- "
	}
	return "|- "
}

func gap(last bool) string {
	if last {
		return "   "
	}
	return "|  "
}

// age formats a duration like kubectl: as seconds, minutes, hours or days.
func age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	days := int(d / (24 * time.Hour))
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case days < 2:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", days)
}
