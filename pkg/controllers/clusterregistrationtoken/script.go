package clusterregistrationtoken

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
)

// scriptInterval is the time between two looks at the digest of the install script. A look reads the state of one file.
const scriptInterval = 30 * time.Second

// followScript queues all tokens when the digest of the install script changes, because their commands contain it. A
// file of the server has no events. It queues only after two looks found the same digest, because the file may be
// written at the time of a look.
func (h *handler) followScript(ctx context.Context) {
	last := h.InstallScriptSHA256()
	seen := last
	_ = wait.PollUntilContextCancel(ctx, scriptInterval, false, func(context.Context) (bool, error) {
		before, now := seen, h.InstallScriptSHA256()
		seen = now
		if now == last || now != before {
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
