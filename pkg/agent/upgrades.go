package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// Files of an upgrade of the agent (docs/wire/plan.md#upgrade-of-the-agent). They are in the directory upgrade, next to
// the work directory.
const (
	upgradesName = "upgrade"
	// reportedName holds the process id and the version of the agent that has reported last. The upgrade waits for it
	// before it drops the former agent.
	reportedName = "reported"
	// resultName holds the result of the last upgrade.
	resultName = "result"
)

// maxUpgradeResult limits a reported result, in bytes. Servers refuse longer texts.
const maxUpgradeResult = 240

// upgrades is the agent's part in its own upgrade: it reports its version and the result, and tells the upgrade that it
// works. The zero value does nothing.
type upgrades struct {
	dir, version string
	// isNoted is true when this process has recorded that it has reported.
	isNoted bool
}

func upgradeDir(c Config) string { return filepath.Join(filepath.Dir(c.WorkDirectory), upgradesName) }

// addTo adds the version and the last result to a report, unless the Secret has them already.
func (u *upgrades) addTo(changes, data map[string][]byte) {
	if u.version == "" {
		return
	}
	values := map[string]string{nodeplan.KeyAgentVersion: short(u.version)}
	if text, err := os.ReadFile(filepath.Join(u.dir, resultName)); err == nil {
		if _, ok := nodeplan.ParseAgentUpgrade(string(text)); ok {
			values[nodeplan.KeyAgentUpgrade] = short(strings.TrimSpace(string(text)))
		}
	}
	for key, value := range values {
		if string(data[key]) != value {
			changes[key] = []byte(value)
		}
	}
}

func short(text string) string { return text[:min(len(text), maxUpgradeResult)] }

// note records once that this process has reached its server and that its report is complete.
func (u *upgrades) note() error {
	if u.version == "" || u.isNoted {
		return nil
	}
	if err := os.MkdirAll(u.dir, 0o700); err != nil {
		return fmt.Errorf("make directory for upgrades: %w", err)
	}
	text := fmt.Appendf(nil, "%d %s\n", os.Getpid(), u.version)
	if err := replaceFile(filepath.Join(u.dir, reportedName), text, 0o600, -1, -1); err != nil {
		return fmt.Errorf("record the first report: %w", err)
	}
	u.isNoted = true
	return nil
}
