package endpointauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
)

// Options configure the program.
type Options struct {
	// Address is the address to listen on: a loopback address and a port. localhost means the IPv4 and IPv6 addresses.
	// At least one of them must exist.
	Address string
	// TrustFile contains the public keys.
	TrustFile string
	// Log must not be nil.
	Log logrus.FieldLogger
}

// Run serves until ctx ends. It returns an error if it cannot.
func Run(ctx context.Context, o Options) error {
	listeners, err := listen(ctx, o.Address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: NewHandler(o.TrustFile, o.Log), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second,
		IdleTimeout:  2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan error, len(listeners))
	for _, listener := range listeners {
		o.Log.WithField("address", listener.Addr().String()).Info("Answering TokenReviews")
		go func() { ended <- server.Serve(listener) }()
	}
	select {
	case err = <-ended:
		_ = server.Close()
		return fmt.Errorf("answer TokenReviews: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}

// listen listens on an address. It skips an address family that the host lacks. A port in use is an error, because the
// API server would ask the other process.
func listen(ctx context.Context, address string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--address: %q must be HOST:PORT, such as 127.0.0.1:6440", address)
	}
	hosts := []string{host}
	if host == "localhost" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	var listeners []net.Listener
	var missing error
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return nil, fmt.Errorf("--address: %q must be a loopback address: 127.0.0.1, [::1] or localhost", address)
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
		switch {
		case err == nil:
			listeners = append(listeners, listener)
		case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
			missing = err
		default:
			for _, listener := range listeners {
				_ = listener.Close()
			}
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	if len(listeners) == 0 {
		return nil, fmt.Errorf("listen: %w", missing)
	}
	return listeners, nil
}
