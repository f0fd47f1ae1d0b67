package machineprovision

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Rehearse runs the handler once for a machine. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(ctx context.Context, d Deps, machine *unstructured.Unstructured) error {
	//nolint:contextcheck // the handler has it
	return newHandler(ctx, d).onChange(machine.GroupVersionKind(), machine.GetNamespace()+"/"+machine.GetName(),
		machine)
}
