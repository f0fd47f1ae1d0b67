package tunnel

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// For each body over HTTP/2, net/http allocates a buffer whose size the other side chooses. So a stock agent gets
// bodies of unknown length over HTTP/1.1.
func TestStockTransport_LongBodiesTakeNoBufferOfTheClustersSize(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client checks the answer
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	transport := newStockTransport(&session{registration: Registration{Params: wire.Params{
		CA: authority, Address: strings.TrimPrefix(server.URL, "https://"), Token: "x"}}})
	transport.plain.DialContext, transport.upgrades.DialContext = (&net.Dialer{}).DialContext,
		(&net.Dialer{}).DialContext
	t.Cleanup(transport.close)
	for _, tt := range []struct {
		name, want string
		body       io.Reader
	}{
		{"no body", "HTTP/2.0", http.NoBody},
		{"a short body", "HTTP/2.0", strings.NewReader("short")},
		{"a long body", "HTTP/1.1", strings.NewReader(strings.Repeat("a", longestWrite+1))},
		{"a body of unknown length", "HTTP/1.1", io.MultiReader(strings.NewReader("short"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://c-m-x/api", tt.body)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.roundTrip(request, false)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if got, err := io.ReadAll(answer.Body); err != nil || string(got) != tt.want {
				t.Errorf("the protocol is %q (%v), want %s", got, err, tt.want)
			}
		})
	}
}
