package clusteragent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Agents on one node network each answer on their own socket whether they are connected.
func TestReady_AsksOverASocket(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "health.sock")
	if err := os.WriteFile(strings.TrimPrefix(address, "unix:"), nil, 0o600); err != nil { // left by a previous process
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	connected, ended := false, make(chan error)
	if err := Ready(ctx, address); err == nil {
		t.Error("the agent is ready without an answer")
	}
	ask := make(chan bool)
	go func() { ended <- serveHealth(ctx, address, func() bool { return <-ask }) }()
	answer := func() error {
		go func() { ask <- connected }()
		var err error
		poll(t, "an answer", func() bool {
			err = Ready(ctx, address)
			return err == nil || !strings.Contains(err.Error(), "ask the agent")
		})
		return err
	}
	if err := answer(); err == nil {
		t.Error("an agent without a session is ready")
	}
	connected = true
	if err := answer(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
