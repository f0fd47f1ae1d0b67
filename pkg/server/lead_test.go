package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Lead returns what ended the term rather than its consequences. A term that the caller ends returns nil.
func TestEndOf_ReturnsTheCause(t *testing.T) {
	broken, refused := errors.New("the core cannot fill its caches"), errors.New("refused")
	filling := fmt.Errorf("fill caches: %w", context.Canceled)
	for name, tc := range map[string]struct {
		toldToEnd bool
		cause     error
		err, want error
	}{
		"a part fails while caches fill": {cause: broken, err: filling, want: broken},
		"a part fails later":             {cause: broken, want: broken},
		"the start fails":                {err: refused, want: refused},
		"a timeout of the start":         {err: context.DeadlineExceeded, want: context.DeadlineExceeded},
		"the end":                        {toldToEnd: true},
		"the end while caches fill":      {toldToEnd: true, err: filling},
		"an error at the end":            {toldToEnd: true, err: refused, want: refused},
	} {
		ctx, end := context.WithCancel(t.Context())
		term, cancel := context.WithCancelCause(ctx)
		if tc.cause != nil {
			cancel(tc.cause)
		}
		if tc.toldToEnd {
			end()
		}
		cancel(errTermOver)
		if got := endOf(ctx, term, tc.err); !errors.Is(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		end()
	}
}
