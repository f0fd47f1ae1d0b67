package clusteragent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenAge is how long a token is used before its file is reread.
const tokenAge = 10 * time.Second

// readToken reads a token from a file. Errors contain no part of it.
func readToken(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("%s contains no token", path)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s must contain one token of printable ASCII", path)
	}
	return token, nil
}

// fingerprint distinguishes tokens in a log without revealing them.
func fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:4])
}

// credential is the agent's own token. The kubelet replaces its file from time to time.
type credential struct {
	path string

	mu    sync.Mutex
	token string
	read  time.Time
}

// get returns the token. While the file is unreadable, it returns the previous token.
func (c *credential) get() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && time.Since(c.read) < tokenAge {
		return c.token, nil
	}
	token, err := readToken(c.path)
	switch {
	case err == nil:
		c.token, c.read = token, time.Now()
	case c.token == "":
		return "", errors.Join(errors.New("the agent has no credential"), err)
	}
	return c.token, nil
}
