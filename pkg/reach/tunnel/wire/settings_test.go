package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// oneByOne is a connection that delivers single bytes.
type oneByOne struct {
	net.Conn
	from io.Reader
}

func (o oneByOne) Read(p []byte) (int, error) { return o.from.Read(p) }

// settingsFrame returns a frame with settings, each an identifier and the bytes of its value.
func settingsFrame(settings ...string) string {
	all := strings.Join(settings, "")
	return "\x00\x00" + string(rune(len(all))) + "\x04\x00\x00\x00\x00\x00" + all
}

func TestLimitFrames(t *testing.T) {
	const streams, allowed, tooMuch = "\x00\x03\x00\x00\xff\xff", "\x00\x05\x00\x01\x00\x00", "\x00\x05\x00\x01\x00\x01"
	data := "\x00\x00\x09\x00\x00\x00\x00\x00\x01" + "\x00\x00\x06\x04\x00\x00\x00\x00\x00"
	for _, tt := range []struct {
		name, bytes string
		refused     bool
	}{
		{name: "settings of an agent", bytes: settingsFrame(streams, allowed) + data},
		{name: "no settings", bytes: settingsFrame() + data},
		{name: "large frames", bytes: settingsFrame(streams, tooMuch), refused: true},
		{name: "large frames later", bytes: settingsFrame(streams) + data + settingsFrame(tooMuch), refused: true},
		{name: "data that looks like settings", bytes: data + data},
		{name: "settings of a wrong length", bytes: settingsFrame("\x00\x05\x00", "\xff") + data},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, from := range map[string]io.Reader{
				"at once": strings.NewReader(tt.bytes), "by bytes": iotest.OneByteReader(strings.NewReader(tt.bytes)),
			} {
				got, err := io.ReadAll(LimitFrames(oneByOne{from: from}))
				if (err != nil) != tt.refused {
					t.Errorf("%s: error is %v", name, err)
				}
				if err == nil && string(got) != tt.bytes {
					t.Errorf("%s: the bytes differ", name)
				}
			}
		})
	}
}

// A server with Drover's settings answers, and one with larger frames gets no request.
func TestLimitFrames_WithNetHTTP(t *testing.T) {
	for _, larger := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Config.HTTP2 = HTTP2()
		if larger {
			server.Config.HTTP2.MaxReadFrameSize *= 2
		}
		server.Start()
		defer server.Close()
		client := &http.Transport{Protocols: server.Config.Protocols,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return LimitFrames(conn), nil
			}}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.RoundTrip(request)
		if err == nil {
			answer.Body.Close()
		}
		if (err != nil) != larger {
			t.Errorf("larger frames %v: error is %v", larger, err)
		}
	}
}
