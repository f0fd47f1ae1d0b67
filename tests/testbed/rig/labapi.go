package rig

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// driverFile is the node driver's program. rancher-machine derives the driver's name from it.
const driverFile = "docker-machine-driver-nspawn"

// labAPI is the lab's cloud API as Drover's users see it: an address, a token, a certificate authority, and the
// download URL of the node driver.
type labAPI struct {
	URL       string
	Token     string
	CA        []byte
	DriverURL string
	DriverSum string

	servers []*http.Server
}

// serveLab serves the lab's API on port 7443 and the driver's program on port 7080 of the lab's gateway.
func serveLab(l *lab.Lab, dir, bin string) (*labAPI, error) {
	token, err := keepSecret(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	ca, err := pki.OpenAuthority(filepath.Join(dir, "pki"), "lab-ca", time.Now)
	if err != nil {
		return nil, err
	}
	pair, err := ca.Serving("lab", lab.Gateway.String())
	if err != nil {
		return nil, err
	}
	driver := filepath.Join(bin, driverFile)
	program, err := os.ReadFile(driver)
	if err != nil {
		return nil, fmt.Errorf("read node driver: %w", err)
	}
	sum := sha256.Sum256(program)
	api := &labAPI{
		URL: fmt.Sprintf("https://%s:7443", lab.Gateway), Token: token, CA: ca.CertPEM,
		DriverURL: fmt.Sprintf("http://%s:7080/%s", lab.Gateway, driverFile), DriverSum: hex.EncodeToString(sum[:]),
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read lab certificate: %w", err)
	}
	files := http.NewServeMux()
	files.HandleFunc("GET /"+driverFile, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, driver) })
	for port, server := range map[int]*http.Server{
		7443: {Handler: l.Handler(token), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate},
			MinVersion: tls.VersionTLS12}},
		7080: {Handler: files},
	} {
		listener, err := lab.ListenIn(l.Namespace(), fmt.Sprintf("%s:%d", lab.Gateway, port))
		if err != nil {
			api.close()
			return nil, fmt.Errorf("serve lab: %w", err)
		}
		server.ReadHeaderTimeout = 10 * time.Second
		api.servers = append(api.servers, server)
		go func() {
			if server.TLSConfig != nil {
				_ = server.ServeTLS(listener, "", "")
				return
			}
			_ = server.Serve(listener)
		}()
	}
	return api, nil
}

// close stops the servers. It cuts off requests that take longer than a second, such as creates. Their clients retry.
func (a *labAPI) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range a.servers {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
}

// keepSecret returns the random text in a file. It creates the file the first time.
func keepSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read secret: %w", err)
	}
	random := make([]byte, 24)
	_, _ = rand.Read(random)
	text := hex.EncodeToString(random)
	return text, localfile.Write(path, []byte(text+"\n"))
}
