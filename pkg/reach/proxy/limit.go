package proxy

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// A cluster is not trusted: it can answer with any number of bytes, and clients keep an answer in memory until it is complete. These are the most that an
// answer to Drover's own clients may have, an answer to the cache of Cluster API's controllers, which lists whole kinds, and one event of a watch; an
// object in etcd has 1.5 MiB at most.
const (
	answerLimit = 64 << 20
	listLimit   = 256 << 20
	eventLimit  = 16 << 20
)

// protobufType is the type of answers whose events are read by their lengths, which clients limit themselves.
const protobufType = "application/vnd.kubernetes.protobuf"

// limited ends answers that are larger than they may be.
type limited struct {
	next  http.RoundTripper
	limit int64
}

// limitTo returns what limits a transport.
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
		if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); !strings.HasPrefix(kind, protobufType) {
			answer.Body = &boundedEvents{ReadCloser: answer.Body, limit: eventLimit}
		}
		return answer, nil
	}
	answer.Body = &bounded{ReadCloser: answer.Body, limit: l.limit, left: l.limit}
	return answer, nil
}

// WrappedRoundTripper lets who ends what they have of a cluster find the transport.
func (l limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// isWatch reports whether the answer to a request goes on for as long as it likes. It is the request that tells, and not the cluster.
func isWatch(r *http.Request) bool {
	watch, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return r.Method == http.MethodGet && watch && err == nil
}

// bounded is an answer of at most limit bytes, of which so many are left.
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
		p = p[:b.left+1] // one more, to know whether there is any
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.tooLarge()
	}
	return n, err
}

func (b *bounded) tooLarge() error {
	return fmt.Errorf("the cluster's answer has more than %d MiB", b.limit>>20)
}

// boundedEvents is the answer to a watch: JSON texts, one after the other, each of which has at most limit bytes, with the blanks before it. Clients keep a
// text until it is complete.
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
			b.failed = fmt.Errorf("an event of the cluster has more than %d MiB", b.limit>>20)
			return i, b.failed
		}
		b.follow(c)
	}
	return n, err
}

// follow knows where a text ends. What is no JSON ends nowhere, and at the limit.
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
