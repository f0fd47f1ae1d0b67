package driverprogram

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/machine/libmachine/mcnflag"

	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// TestMain makes this test program act as a node driver when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv("MACHINE_PLUGIN_TOKEN") == "42" {
		playDriver(os.Getenv("MACHINE_PLUGIN_DRIVER_NAME"))
		return
	}
	m.Run()
}

// flags implements the part of the plugin protocol that the server uses.
type flags struct {
	version int
	list    []mcnflag.Flag
}

func (f *flags) GetVersion(_ *struct{}, reply *int) error { *reply = f.version; return nil }

func (f *flags) GetCreateFlags(_ *struct{}, reply *[]mcnflag.Flag) error { *reply = f.list; return nil }

func say(line any) { _, _ = fmt.Fprintln(os.Stdout, line) }

// playDriver acts as a driver, working or broken.
func playDriver(name string) {
	registerFlags()
	if port, ok := strings.CutPrefix(name, "borrowed-"); ok {
		say("127.0.0.1:" + port)
		<-time.After(time.Hour)
	}
	served := &flags{version: 1, list: []mcnflag.Flag{
		&mcnflag.StringFlag{Name: name + "-token", Usage: "Token", EnvVar: "TOKEN"},
		&mcnflag.IntFlag{Name: name + "-cpu-count", Value: 2},
		&mcnflag.BoolFlag{Name: name + "-fast"}, &mcnflag.StringSliceFlag{Name: name + "-tags", Value: []string{"a"}},
	}}
	service := "RPCServerDriver"
	switch name {
	case "silent":
		<-time.After(time.Hour)
	case "chatty":
		say("hello, I am not a driver")
		return
	case "elsewhere":
		say("192.0.2.1:80")
		<-time.After(time.Hour)
	case "closed":
		say("127.0.0.1:1")
		<-time.After(time.Hour)
	case "future":
		served.version = 2
	case "nameless":
		served.list = []mcnflag.Flag{&mcnflag.StringFlag{Name: "url"}}
	case "ancient":
		service = "RpcServerDriver"
	case "other":
		service = "Something"
	}
	server := rpc.NewServer()
	if err := server.RegisterName(service, served); err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(rpc.DefaultRPCPath, server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	say(listener.Addr())
	for _, variable := range os.Environ() { // a driver must not see the server's environment
		if strings.HasPrefix(variable, "DROVER_SECRET") {
			panic(variable)
		}
	}
	panic(http.Serve(listener, mux))
}

func self(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestAsk(t *testing.T) {
	t.Setenv("DROVER_SECRET", "x")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := []driverschema.Flag{
		{Name: "sim-token", Type: driverschema.FlagString, Usage: "Token", EnvVar: "TOKEN"},
		{Name: "sim-cpu-count", Type: driverschema.FlagInt, Default: "2"},
		{Name: "sim-fast", Type: driverschema.FlagBool},
		{Name: "sim-tags", Type: driverschema.FlagList, List: []string{"a"}},
	}
	for name, wantErr := range map[string]string{
		"sim": "", "ancient": "", "silent": "in time", "chatty": "not a local address",
		"elsewhere": "not a local address",
		"closed":    "does not answer", "future": "version 2", "other": "does not know the plugin protocol",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			got, err := ask(ctx, program, name)
			if wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), wantErr) {
					t.Errorf("error is %v, want %q", err, wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == "sim" {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("flags (-want +got):\n%s", diff)
				}
			}
		})
	}
	if _, err := ask(t.Context(), filepath.Join(t.TempDir(), "missing"), "sim"); err == nil ||
		strings.Contains(err.Error(), "/") {
		t.Errorf("a missing program: %v, want an error without the path", err)
	}
}

// TestAsk_ForeignListener: ask returns in time even if a program prints the address of a listener that survives
// it and never answers.
func TestAsk_ForeignListener(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]string{
		"silent": "", "silent after the handshake": "HTTP/1.0 200 Connected to Go RPC\n\n",
		"stops in the middle": "HTTP/1.0 200",
		"sends without end":   "HTTP/1.0 200 OK\n" + strings.Repeat("Header: x\n", 1000),
		"refuses":             "HTTP/1.0 405 Must CONNECT\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				_, _ = io.Copy(io.Discard, conn) // until the other side closes the connection
			}()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			asked := make(chan error, 1)
			go func() {
				_, err := ask(ctx, program, fmt.Sprintf("borrowed-%d", listener.Addr().(*net.TCPAddr).Port))
				asked <- err
			}()
			select {
			case err := <-asked:
				if err == nil || !strings.Contains(err.Error(), "is not a driver") {
					t.Errorf("error is %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the worker is blocked")
			}
			<-closed
		})
	}
}
