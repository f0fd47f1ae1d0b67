package clusteragent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Files of a pod's service account.
const (
	accountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // the name of a file
	accountCA    = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// Options are what the agent needs.
type Options struct {
	// ServerURL is the https address of Drover's server. Of a path in it nothing is used.
	ServerURL string
	// TokenFile holds the registration token. It is read anew for each session.
	TokenFile string
	// CAFile holds the authorities that the server's certificate is from, as PEM. CAChecksum is the SHA-256 of what the server gives out as its
	// authorities, as hexadecimal digits. With neither, the authorities of the system are trusted; with both, the file has to have the
	// checksum.
	CAFile, CAChecksum string
	// APIServer is the https address of the cluster's API server.
	APIServer string
	// APIServerCAFile and APIServerTokenFile are the authorities of the API server and the agent's credential; empty is what a pod's service
	// account has. The credential is read anew, at most every 10 s.
	APIServerCAFile, APIServerTokenFile string
	// HealthAddress is where /healthz and /readyz are answered, HOST:PORT or unix: and the path of a socket; empty is nowhere.
	HealthAddress string
	// Heartbeat is how often each session gives a sign of life; 0 is every 1.5 s.
	Heartbeat time.Duration
	// Proxy is the proxy for connections to the server; nil is that of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Version is told to the server, as part of User-Agent.
	Version string
	// Log gets a line for every session that begins and ends; nil is the standard logger.
	Log logrus.FieldLogger
}

// complete sets what was left out and checks the rest. Errors name the field.
func (o *Options) complete() error {
	if o.APIServerCAFile == "" {
		o.APIServerCAFile = accountCA
	}
	if o.APIServerTokenFile == "" {
		o.APIServerTokenFile = accountToken
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = wire.Heartbeat
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	if o.Log == nil {
		o.Log = logrus.StandardLogger()
	}
	var problems []error
	for name, address := range map[string]string{"ServerURL": o.ServerURL, "APIServer": o.APIServer} {
		if err := checkURL(address); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	if o.TokenFile == "" {
		problems = append(problems, errors.New("TokenFile: has to name a file with the registration token"))
	}
	if o.CAChecksum != "" && !isChecksum(o.CAChecksum) {
		problems = append(problems, errors.New("CAChecksum: has to be a SHA-256, 64 hexadecimal digits"))
	}
	if _, err := wire.ParseHeartbeat(o.Heartbeat.String()); err != nil {
		problems = append(problems, fmt.Errorf("field Heartbeat: %w", err))
	}
	return errors.Join(problems...)
}

func checkURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil {
		return errors.New("has to be https://HOST or https://HOST:PORT")
	}
	return nil
}

func isChecksum(text string) bool {
	return len(text) == 64 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

// InCluster is the address of the API server by the environment of a pod; empty outside of one.
func InCluster(host, port string) string {
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}
