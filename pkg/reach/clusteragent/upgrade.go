package clusteragent

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// linger is how long the API server may take to read data that the client sent before it gave up.
const linger = time.Second

// upgrade switches protocols with the API server and copies data in both directions. The request is one HTTP/2 stream,
// so a slow reader blocks no other request.
func (p *proxy) upgrade(rw http.ResponseWriter, r *http.Request, protocol string) {
	response, err := p.upgrades.RoundTrip(p.upgradeRequest(r, protocol))
	if err != nil {
		p.failed(rw, r, err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	backend, _ := response.Body.(io.ReadWriteCloser)
	upgraded := response.StatusCode == http.StatusSwitchingProtocols
	if got := response.Header.Get("Upgrade"); upgraded && (backend == nil || !strings.EqualFold(got, protocol)) {
		p.failed(rw, r, fmt.Errorf("the API server changed to protocol %q, but the request asked for %q",
			got, protocol))
		return
	}
	header := rw.Header()
	maps.Copy(header, response.Header)
	for name := range header {
		if strings.HasPrefix(name, wire.HeaderPrefix) {
			delete(header, name)
		}
	}
	for _, name := range []string{"Connection", "Upgrade", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding"} {
		header.Del(name)
	}
	if header["Date"] == nil {
		header["Date"] = nil // net/http must not add one
	}
	if !upgraded {
		rw.WriteHeader(response.StatusCode)
		aborted(r, pass(&flushing{rw, http.NewResponseController(rw)}, response.Body))
		return
	}
	header.Del("Content-Length")
	header.Set(wire.HeaderUpgraded, protocol)
	rw.WriteHeader(http.StatusOK)
	aborted(r, join(rw, r, backend))
}

// aborted ends an incomplete stream with an error. It does nothing if the client has given up.
func aborted(r *http.Request, err error) {
	if err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler)
	}
}

// upgradeRequest returns the request for the API server.
func (p *proxy) upgradeRequest(r *http.Request, protocol string) *http.Request {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength, out.RequestURI, out.Close = nil, 0, "", false
	if out.Method = r.Header.Get(wire.HeaderMethod); out.Method == "" {
		out.Method = http.MethodGet
	}
	p.rewrite(&httputil.ProxyRequest{In: r, Out: out})
	for _, name := range []string{"Te", "Trailer", "Content-Length"} {
		out.Header.Del(name)
	}
	if _, named := out.Header["User-Agent"]; !named {
		out.Header.Set("User-Agent", "") // suppress Go's default
	}
	out.Header.Set("Connection", "Upgrade")
	out.Header.Set("Upgrade", protocol)
	return out
}

// join copies data in both directions, until the API server ends or the client gives up.
func join(rw http.ResponseWriter, r *http.Request, backend io.ReadWriteCloser) error {
	up := make(chan struct{})
	go func() {
		defer close(up)
		if pass(backend, r.Body) == nil {
			if half, ok := backend.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}
	}()
	stop := context.AfterFunc(r.Context(), func() {
		timer := time.NewTimer(linger)
		defer timer.Stop()
		select {
		case <-up:
		case <-timer.C:
		}
		_ = backend.Close()
		_ = r.Body.Close() // stop waiting, whatever happens to its connection
	})
	defer stop()
	control := http.NewResponseController(rw)
	err := control.Flush() // the client waits for the answer, and the API server may wait for the client
	if err == nil {
		err = pass(&flushing{rw, control}, backend)
	}
	if r.Context().Err() == nil {
		_ = r.Body.Close()
		_ = backend.Close()
	}
	<-up
	return err
}

// flushing flushes each write immediately.
type flushing struct {
	io.Writer
	control *http.ResponseController
}

// Write writes and flushes.
func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// pass copies data as it arrives.
func pass(to io.Writer, from io.Reader) error {
	buffer := buffers.Get()
	defer buffers.Put(buffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return failed
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
