package clusterproxy

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// memoSize limits the cached answers of one kind. The oldest are dropped.
	memoSize = 8192
	// reviewTimeout limits one question to the management cluster.
	reviewTimeout = 10 * time.Second
)

// memo caches answers of the management cluster for a short time. Concurrent identical questions are asked once. Errors
// are not cached.
type memo[T any] struct {
	answers *cache.LRUExpireCache
	asking  singleflight.Group
	// keep is how long an answer is cached.
	keep func(T) time.Duration
}

func newMemo[T any](keep func(T) time.Duration) *memo[T] {
	return &memo[T]{answers: cache.NewLRUExpireCache(memoSize), keep: keep}
}

// get returns the answer for a key. It stores only a digest of the key, so the key may contain a token.
func (m *memo[T]) get(ctx context.Context, key string, ask func(context.Context) (T, error)) (T, error) {
	digest := naming.SHA256(key)
	if known, ok := m.answers.Get(digest); ok {
		return known.(T), nil
	}
	// All waiting callers share the question, so it continues when the first of them leaves.
	asked := m.asking.DoChan(digest, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		answer, err := ask(ctx)
		if err == nil {
			m.answers.Add(digest, answer, m.keep(answer))
		}
		return answer, err
	})
	var none T
	select {
	case <-ctx.Done():
		return none, fmt.Errorf("wait for the management cluster: %w", context.Cause(ctx))
	case result := <-asked:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(T), nil
	}
}
