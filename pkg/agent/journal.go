package agent

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

const (
	// installInstruction is the name of the instruction that installs the distribution
	// (docs/wire/plan.md#instructions).
	installInstruction = "install"
	// journalLines is how many last lines of the journal explain a failed installation.
	journalLines = 20
	journalTime  = 10 * time.Second
)

// journal returns the last lines that the distribution has logged since a time. An installer starts the distribution,
// and its own output ends with systemctl's advice to read the journal.
func (r runner) journal(ctx context.Context, instruction plan.OneTimeInstruction, since time.Time) []byte {
	if instruction.Name != installInstruction || instruction.Image == "" {
		return nil
	}
	program, err := findCommand("journalctl", "", variable(r.environ, "PATH"))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	args := []string{"--quiet", "--no-pager", "--output=cat", "--lines=" + strconv.Itoa(journalLines),
		"--since=@" + strconv.FormatInt(since.Unix(), 10)}
	for _, unit := range []string{"rke2-server", "rke2-agent", "k3s", "k3s-agent"} {
		args = append(args, "--unit="+unit)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = r.environ
	out, err := cmd.Output()
	out = bytes.TrimSpace(out)
	if err != nil || len(out) == 0 {
		return nil
	}
	return append([]byte("Last lines of the journal:\n"), append(out, '\n')...)
}
