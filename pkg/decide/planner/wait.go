package planner

import (
	"fmt"
	"slices"
	"strings"
)

// waitFor is a wait that ends by itself when one of the events arrives. The first source is a separate parameter, so
// every wait has one.
func waitFor(reason Reason, message string, wake Wake, more ...Wake) *Wait {
	return &Wait{Reason: reason, Message: message, Wakes: append([]Wake{wake}, more...)}
}

// failure is a wait that only the user can end.
func failure(reason Reason, message string, wake Wake, more ...Wake) *Wait {
	w := waitFor(reason, message, wake, more...)
	w.Failed = true
	return w
}

// namedMax is how many machines a message names.
const namedMax = 3

// note is a message about one machine.
type note struct {
	name, message string
}

// about returns the text "<prefix> a,b,c and 2 more", with the machine's message when there is only one machine.
func about(prefix string, notes []note) string {
	slices.SortFunc(notes, func(a, b note) int { return strings.Compare(a.name, b.name) })
	names := make([]string, 0, namedMax)
	for _, n := range notes[:min(len(notes), namedMax)] {
		names = append(names, n.name)
	}
	text := prefix + " " + strings.Join(names, ",")
	switch {
	case len(notes) > namedMax:
		text += fmt.Sprintf(" and %d more", len(notes)-namedMax)
	case len(notes) == 1 && notes[0].message != "":
		text += ": " + notes[0].message
	}
	return text
}
