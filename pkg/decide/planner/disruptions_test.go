package planner

import (
	"fmt"

	"github.com/drover-io/drover/pkg/decide/disruption"
)

// wished is what an interpreter of decisions asks when it has carried one out that disrupts: somebody must have wished for it.
func wished(cause disruption.Cause) {
	if cause != "" && cause.Kind() == disruption.KindNone {
		panic(fmt.Sprintf("a disruption by %s, which is no edit, health policy or command", cause))
	}
}
