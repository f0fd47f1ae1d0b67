// Command machine-entrypoint is the program that the container of a provisioning Job starts. See package entrypoint.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-io/drover/pkg/local/machinebinary/entrypoint"
)

const (
	terminationLog = "/dev/termination-log"
	// certificates is where the Job mounts additional certificate authorities.
	certificates = "/etc/rancher/ssl"
	systemCerts  = "/etc/ssl/certs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine-entrypoint:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(ctx context.Context) (int, error) {
	program, err := rancherMachine()
	if err != nil {
		return 0, err
	}
	if err := trustMounted(); err != nil {
		return 0, err
	}
	drivers, err := os.MkdirTemp("", "drivers-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for the driver: %w", err)
	}
	defer func() { _ = os.RemoveAll(drivers) }()
	private, err := os.MkdirTemp("", "machine-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for the connection to the API: %w", err)
	}
	defer func() { _ = os.RemoveAll(private) }()
	return entrypoint.Run(ctx, entrypoint.Config{
		Args:            os.Args[1:],
		Environment:     os.Environ(),
		Program:         program,
		DriverDirectory: drivers,

		PrivateDirectory: private,
		TerminationLog:   terminationLog,
		Output:           os.Stdout,
		Client:           &http.Client{Timeout: 5 * time.Minute},
		RetryAfter:       2 * time.Second,
	}), nil
}

// rancherMachine prefers the program from the same build as this one.
func rancherMachine() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "rancher-machine")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	return exec.LookPath("rancher-machine")
}

// trustMounted makes this process and its children, all Go programs, trust mounted authorities in addition to the
// system's. It does nothing if the image sets the variable itself.
func trustMounted() error {
	if os.Getenv("SSL_CERT_DIR") != "" {
		return nil
	}
	if _, err := os.Stat(certificates); err != nil {
		return nil //nolint:nilerr // nothing mounted: the system's authorities are all there is
	}
	return os.Setenv("SSL_CERT_DIR", certificates+string(os.PathListSeparator)+systemCerts)
}
