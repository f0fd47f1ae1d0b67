package clusterproxy

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stalled is why a request ends whose client stops to send its body.
var stalled = &ended{
	answer: &refusal{code: http.StatusRequestTimeout, reason: metav1.StatusReasonTimeout,
		message: "the client stopped sending the body"},
	reason: "stalled: the client stopped sending the body",
}

// upload is the body of a long-running request. Such a request has no deadline, so upload ends it when its client sends
// nothing for too long. Time in which the cluster reads nothing does not count.
type upload struct {
	io.ReadCloser
	// end ends the context of the request.
	end     context.CancelCauseFunc
	control *http.ResponseController
	stall   time.Duration
	timer   *time.Timer

	mu      sync.Mutex
	over    bool // Read returned io.EOF or another error
	expired bool
	stopped bool
}

// newUpload returns the request's body. Call stop at the end of the request.
func (e *exchange) newUpload(end context.CancelCauseFunc) *upload {
	u := &upload{ReadCloser: e.r.Body, end: end, control: http.NewResponseController(e.w),
		stall: e.proxy.options.UploadStall}
	u.timer = time.AfterFunc(u.stall, u.expire)
	u.timer.Stop()
	return u
}

// Read reads from the client.
func (u *upload) Read(p []byte) (int, error) {
	if !u.begin() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := u.ReadCloser.Read(p)
	u.timer.Stop()
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.over = true
	}
	return n, err
}

func (u *upload) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped {
		u.timer.Reset(u.stall)
	}
	return !u.stopped
}

// expire ends the request. A deadline alone would end it as if the client had disconnected.
func (u *upload) expire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped || u.over {
		return
	}
	u.expired = true
	u.end(stalled)
	_ = u.control.SetReadDeadline(time.Unix(1, 0)) // some connections support no deadlines
}

// stop ends the supervision before the handler returns, because the connection may have its next request then. It
// limits the time in which the server reads the rest of the body.
func (u *upload) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	u.timer.Stop()
	if !u.over && !u.expired {
		_ = u.control.SetReadDeadline(time.Now().Add(min(u.stall, lastWords)))
	}
}
