package rival

import "context"

// Check returns which other manager runs here, or "" without one. Nil means that there is none.
type Check func(ctx context.Context) (string, error)

// Running calls the Check, unless it is nil.
func (c Check) Running(ctx context.Context) (string, error) {
	if c == nil {
		return "", nil
	}
	return c(ctx)
}
