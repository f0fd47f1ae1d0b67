package clusterregistrationtoken

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
)

// scriptInterval is the time between two looks at the digest of the install script. A look reads the state of one file.
const scriptInterval = time.Minute

// followScript queues all tokens when the digest of the install script changes, because their commands contain it. A
// file of the server has no events.
func (h *handler) followScript(ctx context.Context) {
	last := h.InstallScriptSHA256()
	_ = wait.PollUntilContextCancel(ctx, scriptInterval, false, func(context.Context) (bool, error) {
		now := h.InstallScriptSHA256()
		if now == last {
			return false, nil
		}
		if err := h.queueAll(); err != nil {
			h.Log.WithError(err).Warn("Cannot update the commands for hosts after a change of the install script; " +
				"trying again")
			return false, nil
		}
		last = now
		return false, nil
	})
}

func (h *handler) queueAll() error {
	tokens, err := h.tokens.List("", labels.Everything())
	if err != nil {
		return fmt.Errorf("list registration tokens: %w", err)
	}
	for _, token := range tokens {
		h.Tokens.EnqueueAfter(token.Namespace, token.Name, 0)
	}
	return nil
}
