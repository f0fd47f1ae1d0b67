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
	"sync"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// bareTarget makes this program one bare proxy, which is to pass requests on to that URL.
const bareTarget = "DROVER_BENCH_BARE"

// serveBare is a reverse proxy of the standard library and nothing else: TLS, HTTP/2 and headers, in and out, with most options of Drover's own.
// It ends with the program that started it.
func serveBare(target string) {
	to, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: wire.LongestHold, BufferPool: &bareBuffers{},
		ModifyResponse: func(answer *http.Response) error {
			wire.PassOn(answer)
			return nil
		},
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true, HTTP2: wire.HTTP2(),
		},
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	fmt.Println(server.URL)
	select {}
}

// bareBuffers are the buffers in which answers are copied.
type bareBuffers struct{ pool sync.Pool }

func (p *bareBuffers) Get() []byte {
	if used, ok := p.pool.Get().(*[32 << 10]byte); ok {
		return used[:]
	}
	return make([]byte, 32<<10)
}

func (p *bareBuffers) Put(used []byte) { p.pool.Put((*[32 << 10]byte)(used)) }

// bare is the way to the API server through two bare proxies in a row, processes of their own like Drover's server and the agent. It is what such a way costs
// with net/http before anybody is authenticated, authorized or impersonated, and without a tunnel.
func (w *world) bare() *rest.Config {
	w.Helper()
	agent := w.bareProxy(w.direct.Host, "GOMAXPROCS=1", "GOGC=50") // as the agent has it
	server := w.bareProxy(agent)
	return unlimited(&rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: w.direct.BearerToken})
}

// bareProxy starts one and returns its URL.
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
