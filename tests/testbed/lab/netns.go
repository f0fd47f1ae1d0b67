package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespacePath is the path at which iproute2 keeps a named network namespace.
func namespacePath(name string) string { return "/run/netns/" + name }

// InNamespace runs do on a thread that has entered the network namespace. A socket belongs to the namespace in which it
// was created, so listeners and connections from do stay there after InNamespace returns. do must not start goroutines
// that create sockets, because they would run on other threads.
func InNamespace(name string, do func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer own.Close()
	target, err := os.Open(namespacePath(name))
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer target.Close()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace %s: %w", name, err)
	}
	doErr := do()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		// The thread stays locked and ends with its goroutine, so that no other goroutine runs in the wrong namespace.
		return fmt.Errorf("leave network namespace %s: %w", name, err)
	}
	runtime.UnlockOSThread()
	return doErr
}

// ListenIn listens on a TCP address inside a network namespace.
func ListenIn(name, address string) (net.Listener, error) {
	var listener net.Listener
	err := InNamespace(name, func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(context.Background(), "tcp", address)
		return err
	})
	return listener, err
}

// DialIn connects to a TCP address, which must be an IP address and port, inside a network namespace.
func DialIn(ctx context.Context, name, address string) (net.Conn, error) {
	var conn net.Conn
	err := InNamespace(name, func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}
