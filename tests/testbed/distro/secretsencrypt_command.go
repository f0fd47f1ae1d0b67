package distro

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
)

// SecretsEncrypt asks the server of this host for the status of secrets encryption, or makes it run the next stage of
// the key rotation. Like the real command, it does not read the configuration. An empty dataDir means the default.
func SecretsEncrypt(ctx context.Context, runtime Runtime, dataDir, command string, out io.Writer) error {
	layout := NewLayout(runtime, dataDir)
	token, err := os.ReadFile(layout.server("token"))
	if err != nil {
		return fmt.Errorf("read the server's token: %w", err)
	}
	j := joiner{layout: layout, config: Config{Token: string(token)}, log: out}
	server := &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(runtime.SupervisorPort()))}
	if command == "status" {
		var status encryptionStatus
		if _, err := j.ask(ctx, server, http.MethodGet, "encrypt/status", nil, &status); err != nil {
			return err
		}
		_, err := io.WriteString(out, status.String())
		return err
	}
	if _, err := j.ask(ctx, server, http.MethodPut, "encrypt/config", url.Values{"stage": {command}},
		&struct{}{}); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	done := command + " completed successfully"
	if command == "reencrypt" {
		done = "reencryption started"
	}
	_, err = fmt.Fprintln(out, done)
	return err
}
