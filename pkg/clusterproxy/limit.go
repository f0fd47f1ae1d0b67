package clusterproxy

import (
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// limiter counts requests that go on, so that neither one user nor all together take more than there is. Negative limits are none.
type limiter struct {
	all, each int

	mu     sync.Mutex
	total  int
	caller map[string]int
}

func newLimiter(all, each int) *limiter {
	return &limiter{all: all, each: each, caller: map[string]int{}}
}

// enter counts a request of a caller in. leave must be called at its end, unless the request was refused.
func (l *limiter) enter(caller string) (leave func(), no *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= 0 && l.total >= l.all || l.each >= 0 && l.caller[caller] >= l.each {
		return nil, &refusal{
			code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, message: "too many requests at once, please try again later", retryAfter: 1,
		}
	}
	l.total++
	l.caller[caller]++
	return sync.OnceFunc(func() { l.exit(caller) }), nil
}

func (l *limiter) exit(caller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.caller[caller]--; l.caller[caller] == 0 {
		delete(l.caller, caller)
	}
}
