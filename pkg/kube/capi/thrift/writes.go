package thrift

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// versions are resourceVersions by kind.
type versions map[schema.GroupVersionKind]string

// writes are the newest versions that the API server has given to own writes, by kind.
type writes struct {
	now func() time.Time

	mu     sync.Mutex
	newest map[schema.GroupVersionKind]write
	// uncertain is when the last write without a known version ended.
	uncertain time.Time
}

// write is the newest version of a kind, and when the last write of the kind ended.
type write struct {
	version string
	at      time.Time
}

func (w *writes) saw(kind schema.GroupVersionKind, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == nil {
		w.newest = map[schema.GroupVersionKind]write{}
	}
	if known, ok := w.newest[kind]; ok && asNew(known.version, version) {
		version = known.version
	}
	w.newest[kind] = write{version, w.now()}
}

func (w *writes) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uncertain = w.now()
}

func (w *writes) lastUncertain() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uncertain
}

// unseen returns the own writes since a time that the caches do not show yet, or nil. It forgets what they show: if the
// API server's data is restored from a backup, versions start again below the known ones.
func (t *Thrift) unseen(since time.Time) versions {
	t.writes.mu.Lock()
	defer t.writes.mu.Unlock()
	var unseen versions
	for kind, newest := range t.writes.newest {
		switch {
		case t.caches.show(kind, newest.version):
			delete(t.writes.newest, kind)
		case !newest.at.Before(since):
			if unseen == nil {
				unseen = versions{}
			}
			unseen[kind] = newest.version
		}
	}
	return unseen
}

// stillUnseen returns the part of some versions that the caches do not show yet, or nil.
func (t *Thrift) stillUnseen(of versions) versions {
	var unseen versions
	for kind, version := range of {
		if t.caches.show(kind, version) {
			continue
		}
		if unseen == nil {
			unseen = versions{}
		}
		unseen[kind] = version
	}
	return unseen
}

// Transport returns next, and learns the versions of the objects in the API server's answers to writes. All clients of
// the manager share it. Some reconcilers delete with a client of their own, which no other door would see.
func (t *Thrift) Transport(next http.RoundTripper) http.RoundTripper {
	return &learning{next, &t.writes}
}

type learning struct {
	http.RoundTripper
	writes *writes
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (l *learning) WrappedRoundTripper() http.RoundTripper { return l.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l *learning) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return l.RoundTripper.RoundTrip(request)
	}
	if request.URL.Query().Has("dryRun") {
		return l.RoundTripper.RoundTrip(request)
	}
	response, err := l.RoundTripper.RoundTrip(request)
	if err != nil {
		l.writes.lost() // the API server may have done it
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		l.writes.lost()
		return nil, fmt.Errorf("read the answer to a write: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	l.learn(request, response, body)
	return response, nil
}

// learn remembers what an answer says about the result of a write.
func (l *learning) learn(request *http.Request, response *http.Response, body []byte) {
	switch code := response.StatusCode; {
	case code >= http.StatusInternalServerError:
		l.writes.lost() // a time-out, for example, of a write that etcd has done
		return
	case code >= http.StatusMultipleChoices:
		return // refused
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return // only Kubernetes' own kinds have other forms, and reconcilers write none that they cache
	}
	var answer struct {
		metav1.TypeMeta
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		l.writes.lost()
		return
	}
	switch version := answer.Metadata.ResourceVersion; {
	case version != "":
		l.writes.saw(answer.GroupVersionKind(), version)
	case request.Method == http.MethodDelete:
		l.writes.lost() // the object is gone, and the answer does not say since which version
	}
}
