package lab

import (
	"context"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// awaitEnd returns nil once the process has ended.
func awaitEnd(ctx context.Context, p procid.ID) error {
	return until(ctx, 20*time.Millisecond, func() bool { return !p.Alive() })
}

// until polls a condition for which the kernel sends no event.
func until(ctx context.Context, every time.Duration, done func() bool) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
