package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Marks in the interlock directory (docs/wire/plan.md#interlock). An install script touches restart-pending before it
// replaces the agent and then waits for applyinator-active to go away.
const (
	restartPendingMark = "restart-pending"
	activeMark         = "applyinator-active"
	restartPendingAge  = 5 * time.Minute
)

// interlock keeps agent and install script out of each other's way. A missing directory switches it off.
type interlock struct {
	dir string
	now func() time.Time
}

// restartPending tells whether an install script asked the agent to start nothing new. A mark without a time, or with one that
// the clock has not reached yet, gets the current one, and a mark older than five minutes is removed: its script died.
func (l interlock) restartPending() bool {
	path := filepath.Join(l.dir, restartPendingMark)
	text, err := os.ReadFile(path)
	if l.dir == "" || err != nil {
		return false
	}
	t, err := time.Parse(time.UnixDate, strings.TrimSpace(string(text)))
	now := l.now()
	if err != nil || t.After(now) { // the clock was set back since, or was wrong: the mark would hold the agent until it is reached
		return os.WriteFile(path, []byte(unixDate(now)), 0o600) == nil
	}
	if now.Sub(t) < restartPendingAge {
		return true
	}
	err = os.Remove(path)
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// activate marks that a plan is being applied, until the returned function is called.
func (l interlock) activate() (done func()) {
	path := filepath.Join(l.dir, activeMark)
	if l.dir == "" || os.WriteFile(path, []byte(unixDate(l.now())), 0o600) != nil {
		return func() {}
	}
	return func() { os.Remove(path) }
}
