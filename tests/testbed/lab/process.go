package lab

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// awaitEnd returns nil once the process has ended.
func awaitEnd(ctx context.Context, p procid.ID) error {
	return until(ctx, 20*time.Millisecond, func() bool { return !p.Alive() })
}

// until polls a condition for which the kernel sends no event.
func until(ctx context.Context, every time.Duration, done func() bool) error {
	return wait.PollUntilContextCancel(ctx, every, true, func(context.Context) (bool, error) { return done(), nil })
}
