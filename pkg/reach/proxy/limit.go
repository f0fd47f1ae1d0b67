package proxy

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Size limits of answers, in bytes. A cluster is not trusted: it can send any number of bytes, and clients buffer
// complete answers. answerLimit is for Drover's own clients. listLimit is for the cache of Cluster API's controllers,
// which lists whole kinds. eventLimit is for one event of a watch. An object in etcd has at most 1.5 MiB.
const (
	answerLimit = 64 << 20
	listLimit   = 256 << 20
	eventLimit  = 16 << 20
)

// protobufType is the type of answers with length-prefixed events, whose size clients limit themselves.
const protobufType = "application/vnd.kubernetes.protobuf"

// limited fails answers that are too large.
type limited struct {
	next  http.RoundTripper
	limit int64
}

// limitTo returns a wrapper that limits a transport.
func limitTo(limit int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return limited{next: next, limit: limit} }
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err != nil || answer.StatusCode == http.StatusSwitchingProtocols {
		return answer, err
	}
	if answer.StatusCode == http.StatusOK && isWatch(r) {
		if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); !strings.HasPrefix(kind,
			protobufType) {
			answer.Body = &boundedEvents{ReadCloser: answer.Body, limit: eventLimit}
		}
		return answer, nil
	}
	answer.Body = &bounded{ReadCloser: answer.Body, limit: l.limit, left: l.limit}
	return answer, nil
}

// WrappedRoundTripper returns the wrapped transport, to close its connections.
func (l limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// isWatch reports whether a request is a watch. It uses the request, because the cluster's answer is not trusted.
func isWatch(r *http.Request) bool {
	watch, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return r.Method == http.MethodGet && watch && err == nil
}

// bounded is an answer of at most limit bytes. left is the rest.
type bounded struct {
	io.ReadCloser
	limit, left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge()
	}
	if int64(len(p)) > b.left {
		p = p[:b.left+1] // one more byte, to detect excess
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.tooLarge()
	}
	return n, err
}

func (b *bounded) tooLarge() error {
	return fmt.Errorf("the cluster's answer is larger than %d MiB", b.limit>>20)
}

// boundedEvents is the answer to a watch: a sequence of JSON texts. Each text, including the blanks before it, has at
// most limit bytes, because clients buffer it until it is complete.
type boundedEvents struct {
	io.ReadCloser
	limit, size      int64
	depth            int
	quoted, escaping bool
	failed           error
}

// Read implements io.Reader.
func (b *boundedEvents) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	n, err := b.ReadCloser.Read(p)
	for i, c := range p[:n] {
		if b.size++; b.size > b.limit {
			b.failed = fmt.Errorf("an event of the cluster is larger than %d MiB", b.limit>>20)
			return i, b.failed
		}
		b.follow(c)
	}
	return n, err
}

// follow detects the end of a JSON text. Invalid JSON has no end and reaches the limit.
func (b *boundedEvents) follow(c byte) {
	switch {
	case b.escaping:
		b.escaping = false
	case b.quoted:
		b.escaping, b.quoted = c == '\\', c != '"'
	case c == '"':
		b.quoted = true
	case c == '{' || c == '[':
		b.depth++
	case c == '}' || c == ']':
		if b.depth--; b.depth == 0 {
			b.size = 0
		}
	}
}
