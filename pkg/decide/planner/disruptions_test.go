package planner

import (
	"fmt"

	"github.com/drover-io/drover/pkg/decide/disruption"
)

// wished checks the cause of a disruptive effect, as an interpreter of decisions does: each needs an edit, a health
// policy or a command.
func wished(cause disruption.Cause) {
	if cause != "" && cause.Kind() == disruption.KindNone {
		panic(fmt.Sprintf("a disruption by %s, which is no edit, health policy or command", cause))
	}
}
