package distro

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// SecretsEncrypt asks the server of this host for the status of secrets encryption, or has it take the rotation of keys one stage further.
func SecretsEncrypt(ctx context.Context, runtime Runtime, command string, out io.Writer) error {
	config, err := LoadConfig("/etc/rancher/" + string(runtime))
	if err != nil {
		return err
	}
	j := joiner{layout: NewLayout(runtime, config.DataDir), config: config, log: out}
	server := &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(runtime.SupervisorPort()))}
	if command == "status" {
		var status encryptionStatus
		if _, err := j.ask(ctx, server, http.MethodGet, "encrypt/status", nil, &status); err != nil {
			return err
		}
		_, err := io.WriteString(out, status.String())
		return err
	}
	if _, err := j.ask(ctx, server, http.MethodPut, "encrypt/config", url.Values{"stage": {command}}, &struct{}{}); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	done := command + " completed successfully"
	if command == "reencrypt" {
		done = "reencryption started"
	}
	_, err = fmt.Fprintln(out, done)
	return err
}
