package cmd

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"runtime"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/server"
)

const (
	// otherConnections limits the connections of the listeners for health, admission and profiles.
	otherConnections = 1000
	// unsent limits what the kernel buffers of an answer before it sends it, in bytes. The kernel's default grows to
	// megabytes for each client that does not read. A client that reads slowly would also seem to read nothing for as
	// long as a third of that takes.
	unsent = 128 << 10
)

// bufferLittle limits what the kernel buffers of answers. Without it the connection only needs more memory.
func bufferLittle(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok || runtime.GOOS != "linux" {
		return
	}
	socket, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	const notSentLowWater = 0x19 // TCP_NOTSENT_LOWAT, which package syscall does not have
	_ = socket.Control(func(file uintptr) {
		_ = syscall.SetsockoptInt(int(file), syscall.IPPROTO_TCP, notSentLowWater, unsent)
	})
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", address)
}

// endpoint is a server and its listener.
type endpoint struct {
	server   *http.Server
	listener net.Listener
}

// listening describes a listener: its name in metrics, its address and the limit of connections to it.
type listening struct {
	name, address string
	limit         int
}

// limited listens. The connections to the endpoint are limited, and in the same way its requests.
func limited(ctx context.Context, log logrus.FieldLogger, at listening, s *http.Server) (endpoint, error) {
	measured, err := metrics.NewConnections(nil, at.name)
	if err != nil {
		return endpoint{}, err
	}
	listener, err := listen(ctx, at.address)
	if err != nil {
		return endpoint{}, err
	}
	server.Harden(s)
	s.Handler = shareRequests(at.limit, s.Handler)
	return endpoint{s, &sharedListener{Listener: listener, shares: newShares(at.limit), metrics: measured,
		log: log.WithField("listener", at.name)}}, nil
}

// connections is the limit of connections to the endpoints for machines. It leaves a quarter of the files that this
// process may open to its other work.
func (o *serverOptions) connections(log logrus.FieldLogger) int {
	wanted := cmp.Or(o.limits.Connections, server.DefaultConnections)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return int(wanted)
	}
	return int(fitting(wanted, files.Cur, log))
}

func fitting(wanted int64, files uint64, log logrus.FieldLogger) int64 {
	if files/4*3 >= uint64(wanted) {
		return wanted
	}
	fits := int64(files / 4 * 3)
	log.WithField("openFiles", files).Warnf("This process may open too few files for %d connections, and accepts "+
		"only %d; raise the limit of open files", wanted, fits)
	return fits
}
