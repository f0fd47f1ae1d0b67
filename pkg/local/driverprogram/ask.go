package driverprogram

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/rpc"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rancher/machine/libmachine/mcnflag"

	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// The plugin protocol (docs/wire/machines.md#plugin-protocol: every third-party driver speaks it).
const (
	tokenVariable  = "MACHINE_PLUGIN_TOKEN=42"
	nameVariable   = "MACHINE_PLUGIN_DRIVER_NAME="
	pluginVersion  = 1
	maxAddressLine = 256
	maxHandshake   = 4096
)

// rpcServices are the names under which a driver answers. Very old drivers use the second.
var rpcServices = []string{"RPCServerDriver", "RpcServerDriver"}

// registerFlags registers the types of flags with gob, which has one registry for the whole process.
var registerFlags = sync.OnceFunc(func() {
	gob.Register(new(mcnflag.StringFlag))
	gob.Register(new(mcnflag.IntFlag))
	gob.Register(new(mcnflag.StringSliceFlag))
	gob.Register(new(mcnflag.BoolFlag))
})

// askTimeout is how long a driver may take to list its flags.
const askTimeout = time.Minute

// Flags runs the driver in a directory and returns its create flags.
func Flags(ctx context.Context, directory string) ([]driverschema.Flag, error) {
	programs, err := filepath.Glob(filepath.Join(directory, driverPrefix+"*"))
	if err != nil || len(programs) != 1 {
		return nil, fmt.Errorf("find the driver: the directory has %d programs named %sNAME, want one", len(programs),
			driverPrefix)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return ask(ctx, programs[0], strings.TrimPrefix(filepath.Base(programs[0]), driverPrefix))
}

// ask runs a driver and returns its create flags. It always kills the program, at the latest when ctx ends.
func ask(ctx context.Context, program, name string) ([]driverschema.Flag, error) {
	registerFlags()
	cmd := exec.CommandContext(ctx, program)
	// The program is third-party code, so it gets nothing of this process' environment.
	cmd.Env = []string{tokenVariable, nameVariable + name, "PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run the driver: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run the driver: %w", reason(err))
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	address, err := firstLine(ctx, output)
	if err != nil {
		return nil, err
	}
	return askAt(ctx, address)
}

// reason returns an error without the path of the program, which must not be public.
func reason(err error) error {
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		return inner.Err
	}
	return err
}

// firstLine returns the address at which the driver listens.
func firstLine(ctx context.Context, output io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		reader := bufio.NewReaderSize(output, maxAddressLine)
		text, _, err := reader.ReadLine()
		if err != nil {
			text = nil
		}
		line <- string(text)
		_, _ = io.Copy(io.Discard, reader)
	}()
	select {
	case <-ctx.Done():
		return "", errors.New("the driver hangs: it did not print its address in time; check that spec.url is the " +
			"driver for this platform")
	case text := <-line:
		host, port, err := net.SplitHostPort(strings.TrimSpace(text))
		number, portErr := strconv.Atoi(port)
		if err != nil || portErr != nil || number <= 0 || !net.ParseIP(host).IsLoopback() {
			return "", errors.New("the program is not a driver: its first line of output is not a local address")
		}
		return net.JoinHostPort(host, port), nil
	}
}

func askAt(ctx context.Context, address string) ([]driverschema.Flag, error) {
	client, err := dial(ctx, address)
	if err != nil {
		return nil, errors.New("the program is not a driver: it does not answer under the address that it printed")
	}
	defer func() { _ = client.Close() }()
	service, version := "", 0
	for _, candidate := range rpcServices {
		if err := call(ctx, client, candidate+".GetVersion", &version); err == nil {
			service = candidate
			break
		}
	}
	if service == "" {
		return nil, errors.New("the program is not a driver: it does not know the plugin protocol")
	}
	if version != pluginVersion {
		return nil, fmt.Errorf("the driver speaks version %d of the plugin protocol, want %d", version, pluginVersion)
	}
	var flags []mcnflag.Flag
	if err := call(ctx, client, service+".GetCreateFlags", &flags); err != nil {
		return nil, fmt.Errorf("ask the driver for its flags: %w", err)
	}
	out := make([]driverschema.Flag, 0, len(flags))
	for _, flag := range flags {
		converted, err := convert(flag)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	return out, nil
}

// dial is rpc.DialHTTP with a deadline. The address comes from the program, and may be a foreign listener that never
// answers and that survives the program.
func dial(ctx context.Context, address string) (*rpc.Client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// All later reads and writes also end with ctx, so that no goroutine of the client outlives it.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := handshake(conn); err != nil {
		stop()
		_ = conn.Close()
		return nil, err
	}
	return rpc.NewClient(conn), nil
}

// handshake opens the connection as package net/rpc does. The server sends nothing more before the first call, so the
// reader's buffer loses nothing.
func handshake(conn net.Conn) error {
	if _, err := io.WriteString(conn, "CONNECT "+rpc.DefaultRPCPath+" HTTP/1.0\n\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHandshake)),
		&http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New("unexpected answer " + response.Status)
	}
	return nil
}

func call(ctx context.Context, client *rpc.Client, method string, reply any) error {
	pending := client.Go(method, struct{}{}, reply, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		return errors.New("no answer in time")
	case <-pending.Done:
		return pending.Error
	}
}

func convert(flag mcnflag.Flag) (driverschema.Flag, error) {
	switch f := flag.(type) {
	case *mcnflag.StringFlag:
		return driverschema.Flag{Name: f.Name, Type: driverschema.FlagString, Usage: f.Usage, EnvVar: f.EnvVar,
			Default: f.Value}, nil
	case *mcnflag.IntFlag:
		return driverschema.Flag{Name: f.Name, Type: driverschema.FlagInt, Usage: f.Usage, EnvVar: f.EnvVar,
			Default: strconv.Itoa(f.Value)}, nil
	case *mcnflag.BoolFlag:
		return driverschema.Flag{Name: f.Name, Type: driverschema.FlagBool, Usage: f.Usage, EnvVar: f.EnvVar}, nil
	case *mcnflag.StringSliceFlag:
		return driverschema.Flag{Name: f.Name, Type: driverschema.FlagList, Usage: f.Usage, EnvVar: f.EnvVar,
			List: f.Value}, nil
	default:
		return driverschema.Flag{}, errors.New("the driver has a flag of an unknown type")
	}
}
