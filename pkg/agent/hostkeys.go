package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	// sshDir is where SSH servers have their host keys.
	sshDir = "/etc/ssh"
	// maxHostKeyFile limits what is read of a public key file, in bytes.
	maxHostKeyFile = 4 << 10
)

// hostKeys reports the public keys of the host's SSH server, with which users verify the host.
type hostKeys struct {
	// dir has the key files. Empty reports nothing.
	dir string
}

// add adds the keys to a report if they differ from the keys in the Secret. It adds nothing if a file cannot be read.
func (h *hostKeys) add(data, report map[string][]byte) {
	if h.dir == "" {
		return
	}
	keys, err := readHostKeys(h.dir)
	if err == nil && !bytes.Equal(keys, data[nodeplan.KeySSHHostKeys]) {
		report[nodeplan.KeySSHHostKeys] = keys
	}
}

// readHostKeys returns the value of nodeplan.KeySSHHostKeys. It is empty on a host without an SSH server.
func readHostKeys(dir string) ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(dir, "ssh_host_*_key.pub"))
	if err != nil {
		return nil, fmt.Errorf("find host keys: %w", err)
	}
	var files [][]byte
	for _, name := range names {
		content, err := readHostKey(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, content)
	}
	return nodeplan.EncodeHostKeys(files), nil
}

// readHostKey reads a public key file. Anything else with that name, such as a pipe, counts as absent.
func readHostKey(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read host key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, os.ErrNotExist
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read host key: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxHostKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read host key: %w", err)
	}
	return content, nil
}
