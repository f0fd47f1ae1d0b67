package ui

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/drover-io/drover/tests/contract/stage"
)

// teller is a proxy between the browser and Drover that counts successful writes, and can lose the answer to one.
type teller struct {
	url    string
	mu     sync.Mutex
	writes int
	// loses the answer to the next successful write.
	loses bool
}

func newTeller(t *testing.T, st *stage.Stage) *teller {
	t.Helper()
	target, err := url.Parse(st.URL)
	check(t, err)
	out := &teller{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // Drover compares it with the origin of the page
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
		}},
		ModifyResponse: out.answer,
		FlushInterval:  -1, // a stream
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	out.url = server.URL
	return out
}

// answer sees each answer of Drover before the browser does.
func (p *teller) answer(r *http.Response) error {
	if r.Request.Method != http.MethodPut && r.Request.Method != http.MethodDelete {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusNoContent {
		return nil // the page sends a request again that came too early
	}
	p.writes++
	if p.loses {
		p.loses = false
		return http.ErrAbortHandler
	}
	return nil
}

// lose makes the next write remain without an answer.
func (p *teller) lose() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loses = true
	return ""
}

// count returns how many writes Drover has made.
func (p *teller) count() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.Itoa(p.writes)
}
