package compat

import "strings"

// Verdict is what Drover does with a field or a name of Rancher.
type Verdict string

// The verdicts. All except Works need a text.
const (
	// Works means that Drover does the same.
	Works Verdict = "works"
	// Differs means that Drover does something else, or more.
	Differs Verdict = "works differently"
	// NoEffect means that Drover accepts the name and ignores it, or never writes it.
	NoEffect Verdict = "no effect"
	// Absent means that Drover does not have it.
	Absent Verdict = "not there"
	// Added means that only Drover has it.
	Added Verdict = "only in Drover"
)

// Row is a line of the page: one or more names, separated by spaces, with one verdict.
type Row struct {
	Names   string
	Verdict Verdict
	Text    string
}

// Kind is a kind of Rancher that Drover has.
type Kind struct {
	// Group and Name are the API version and the name of the kind.
	Group, Name string
	// Object is a value of the Go type.
	Object any
	// Text says what the kind is for.
	Text string
	// Works are the fields that work: a path, a colon, and the fields below it. A field stands for all fields below it
	// that have no entry of their own.
	Works []string
	// Rows are the other fields.
	Rows []Row
}

// entries returns the verdict of each entry by its path. Duplicates are reported.
func (k Kind) entries() (verdicts map[string]Row, duplicates []string) {
	verdicts = map[string]Row{}
	add := func(path string, row Row) {
		if _, exists := verdicts[path]; exists {
			duplicates = append(duplicates, path)
		}
		verdicts[path] = row
	}
	for _, line := range k.Works {
		under, fields, _ := strings.Cut(line, ": ")
		for field := range strings.FieldsSeq(fields) {
			add(under+"."+field, Row{Names: under + "." + field, Verdict: Works})
		}
	}
	for _, row := range k.Rows {
		for path := range strings.FieldsSeq(row.Names) {
			add(path, row)
		}
	}
	return verdicts, duplicates
}

// Names is a list of labels, annotations or other names.
type Names struct {
	// Title is the heading. Text follows it.
	Title, Text string
	Rows        []NameRow
}

// NameRow is names on one kind of object with one verdict.
type NameRow struct {
	// On are the objects that have the name.
	On      string
	Names   string
	Verdict Verdict
	Text    string
}
