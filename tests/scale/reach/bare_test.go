package reach

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// bareTarget makes this program a bare proxy, which forwards requests to the URL in this variable.
const bareTarget = "DROVER_BENCH_BARE"

// serveBare is only a reverse proxy of the standard library: TLS, HTTP/2 and headers on both sides, with most of
// Drover's options. It ends with its parent process.
func serveBare(target string) {
	to, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(
			r *httputil.ProxyRequest) {
			r.SetURL(to)
		}, FlushInterval: wire.LongestHold, BufferPool: wire.NewBuffers(32 << 10),
		ModifyResponse: func(answer *http.Response) error {
			wire.PassOn(answer)
			return nil
		},
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true,
			HTTP2: wire.HTTP2(),
		},
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	fmt.Println(server.URL)
	select {}
}

// bare is a connection to the API server through two bare proxies in a row. They are separate processes, like Drover's
// server and the agent. It shows the cost of net/http alone, without authentication, authorization, impersonation and a
// tunnel.
func (w *world) bare() *rest.Config {
	w.Helper()
	agent := w.bareProxy(w.direct.Host, "GOMAXPROCS=1", "GOGC=50") // with the agent's settings
	server := w.bareProxy(agent)
	return unlimited(&rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		BearerToken: w.direct.BearerToken})
}

// bareProxy starts a bare proxy and returns its URL.
func (w *world) bareProxy(target string, environ ...string) string {
	w.Helper()
	program, err := os.Executable()
	w.must(err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), append(environ, bareTarget+"="+target)...)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	says, err := command.StdoutPipe()
	w.must(err)
	w.must(command.Start())
	w.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line, err := bufio.NewReader(says).ReadString('\n')
	w.must(err)
	return strings.TrimSpace(line)
}
