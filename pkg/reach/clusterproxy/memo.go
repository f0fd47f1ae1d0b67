package clusterproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// memoSize limits how many answers of one kind are remembered. The oldest are forgotten.
	memoSize = 8192
	// reviewTimeout ends a question to the management cluster.
	reviewTimeout = 10 * time.Second
)

// memo remembers answers of the management cluster for a short while. The same question, asked by many at once, is asked once. Errors are not remembered.
type memo[T any] struct {
	answers *cache.LRUExpireCache
	asking  singleflight.Group
	// keep is for how long an answer counts.
	keep func(T) time.Duration
}

func newMemo[T any](keep func(T) time.Duration) *memo[T] {
	return &memo[T]{answers: cache.NewLRUExpireCache(memoSize), keep: keep}
}

// get returns the answer to the question that key stands for. The key is kept as a digest, so it may hold a token.
func (m *memo[T]) get(ctx context.Context, key string, ask func(context.Context) (T, error)) (T, error) {
	sum := sha256.Sum256([]byte(key))
	digest := hex.EncodeToString(sum[:])
	if known, ok := m.answers.Get(digest); ok {
		return known.(T), nil
	}
	// The question belongs to all who wait for the answer: it goes on when the first of them goes away.
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
