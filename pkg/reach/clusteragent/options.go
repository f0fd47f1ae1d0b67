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

// Options configure the agent.
type Options struct {
	// ServerURL is the https URL of Drover's server. Its path is ignored.
	ServerURL string
	// TokenFile contains the registration token. Each new session rereads it.
	TokenFile string
	// CAFile contains the authorities of the server's certificate, as PEM. CAChecksum is the hexadecimal SHA-256 of the
	// authorities that the server publishes. With neither, the agent trusts the system's authorities. With both, the
	// file must match the checksum.
	CAFile, CAChecksum string
	// APIServer is the https URL of the cluster's API server.
	APIServer string
	// APIServerCAFile and APIServerTokenFile contain the API server's authorities and the agent's credential. Empty
	// means those of the pod's service account. The credential is reread after 10 s.
	APIServerCAFile, APIServerTokenFile string
	// HealthAddress is the address of /healthz and /readyz: HOST:PORT, or unix: and the path of a socket. Empty
	// disables them.
	HealthAddress string
	// Heartbeat is the interval between signs of life of each session. 0 means 1.5 s.
	Heartbeat time.Duration
	// Proxy is the proxy for connections to the server. nil means that of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Version is sent to the server in User-Agent.
	Version string
	// Log receives a line for every session that begins or ends. nil means the standard logger.
	Log logrus.FieldLogger
}

// complete fills in defaults and validates the rest. Errors name the field.
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
		problems = append(problems, errors.New("TokenFile: must be the path of a file with the registration token"))
	}
	if o.CAChecksum != "" && !isChecksum(o.CAChecksum) {
		problems = append(problems, errors.New("CAChecksum: must be a SHA-256 of 64 hexadecimal digits"))
	}
	if _, err := wire.ParseHeartbeat(o.Heartbeat.String()); err != nil {
		problems = append(problems, fmt.Errorf("field Heartbeat: %w", err))
	}
	return errors.Join(problems...)
}

func checkURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil {
		return errors.New("must be https://HOST or https://HOST:PORT")
	}
	return nil
}

func isChecksum(text string) bool {
	return len(text) == 64 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

// InCluster returns the API server's URL from a pod's environment, or "" outside a pod.
func InCluster(host, port string) string {
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}
