package distro

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Tasks end before their base. If the base fails, everything ends with its error.
func TestUpon_BaseEndsLast(t *testing.T) {
	broken := errors.New("etcd ended")
	tests := map[string]struct {
		baseFails bool
		want      error
	}{
		"stopped":        {false, nil},
		"the base fails": {true, broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var order []string
				base := func(ctx context.Context) error {
					if test.baseFails {
						return broken
					}
					<-ctx.Done()
					order = append(order, "base")
					return nil
				}
				slow := func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(3 * time.Second)
					order = append(order, "slow")
					return nil
				}
				time.AfterFunc(time.Minute, stop)
				if err := upon(ctx, base, []task{slow}); !errors.Is(err, test.want) {
					t.Errorf("ended with %v, want %v", err, test.want)
				}
				if !test.baseFails && (len(order) != 2 || order[1] != "base") {
					t.Errorf("ended in the order %v", order)
				}
			})
		})
	}
}
