package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Mark files in the interlock directory (docs/wire/plan.md#interlock). An install script creates restart-pending before
// it replaces the agent. Then it waits until applyinator-active disappears.
const (
	restartPendingMark = "restart-pending"
	activeMark         = "applyinator-active"
	restartPendingAge  = 5 * time.Minute
)

// interlock coordinates the agent with install scripts. It is off when the directory is missing.
type interlock struct {
	dir string
	now func() time.Time
}

// restartPending reports whether an install script asked the agent to start nothing new. A mark without a valid time,
// or with a time in the future, gets the current time. A mark older than five minutes is removed, because its script
// has died.
func (l interlock) restartPending() bool {
	path := filepath.Join(l.dir, restartPendingMark)
	text, err := os.ReadFile(path)
	if l.dir == "" || err != nil {
		return false
	}
	t, err := time.Parse(time.UnixDate, strings.TrimSpace(string(text)))
	now := l.now()
	if err != nil || t.After(now) { // the clock was wrong or set back; the mark would block the agent
		return os.WriteFile(path, []byte(unixDate(now)), 0o600) == nil
	}
	if now.Sub(t) < restartPendingAge {
		return true
	}
	err = os.Remove(path)
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// activate marks that a plan is being applied. The returned function removes the mark.
func (l interlock) activate() (done func()) {
	path := filepath.Join(l.dir, activeMark)
	if l.dir == "" || os.WriteFile(path, []byte(unixDate(l.now())), 0o600) != nil {
		return func() {}
	}
	return func() { os.Remove(path) }
}
