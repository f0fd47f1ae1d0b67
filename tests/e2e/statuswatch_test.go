package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestStatusWatch follows the creation of a cluster with drover status --watch: on a terminal, on a terminal without
// colours, and without a terminal.
func TestStatusWatch(t *testing.T) {
	w := newWorld(t, "status", "v1.36.3+k3s1")
	must(t, w.Apply(t.Context(), cluster("status", "v1.36.3+k3s1")))
	colours, plain := w.statusTerminal(""), w.statusTerminal("NO_COLOR=1 ")
	lines := w.watchStatus("lines", w.statusCommand()...)
	w.awaitReady("status")
	for _, run := range []*statusRun{colours, plain, lines} {
		w.within(time.Minute, run.name+" shows that the machine runs", func() error {
			shown := run.shown()
			if !regexp.MustCompile(`Cluster fleet-default/status:? *(\x1b\[32m)?Ready`).MatchString(shown) ||
				!strings.Contains(shown, "Running") {
				return fmt.Errorf("it shows:\n%q", shown)
			}
			return nil
		})
	}
	for _, run := range []*statusRun{colours, plain} {
		_, err := run.keys.Write([]byte("\x03")) // Ctrl-C
		must(t, err)
		must(t, run.cmd.Wait())
		run.checkTerminal(t)
	}
	if !strings.Contains(colours.shown(), "\x1b[32mReady\x1b[0m") {
		t.Errorf("a terminal without colours:\n%q", colours.shown())
	}
	if strings.Contains(plain.shown(), "\x1b[3") {
		t.Errorf("colours in spite of NO_COLOR:\n%q", plain.shown())
	}
	w.deleteCluster("status")
	must(t, lines.cmd.Wait())
	shown := lines.shown()
	if strings.ContainsAny(shown, "\r\x1b") || !strings.HasSuffix(shown, "Cluster fleet-default/status is gone\n") {
		t.Errorf("lines of changes:\n%q", shown)
	}
	inOrder(t, shown, "Cluster fleet-default/status Waiting", "Cluster fleet-default/status Ready\n",
		"Cluster fleet-default/status Deleting", "Cluster fleet-default/status is gone")
	inOrder(t, shown, " Creating", " Joining", " Running", " Deleting")
}

// statusRun is a running drover status --watch.
type statusRun struct {
	name, log string
	cmd       *exec.Cmd
	keys      io.Writer
	t         *testing.T
}

func (w *world) statusCommand() []string {
	return []string{filepath.Join(binFolder(w.t), "drover"), "status", "status", "--watch",
		"--kubeconfig=" + filepath.Join(w.DataDir(), "kubeconfig")}
}

// Size of the terminals.
const (
	statusColumns = 90
	statusRows    = 20
)

// statusTerminal runs the command in a terminal, which script makes.
func (w *world) statusTerminal(environment string) *statusRun {
	w.t.Helper()
	program := fmt.Sprintf("stty cols %d rows %d; %sexec %s", statusColumns, statusRows, environment,
		strings.Join(w.statusCommand(), " "))
	return w.watchStatus("terminal "+environment, "script", "-qec", program, "/dev/null")
}

func (w *world) watchStatus(name string, command ...string) *statusRun {
	w.t.Helper()
	log, err := os.Create(filepath.Join(w.t.TempDir(), "status.log"))
	must(w.t, err)
	w.t.Cleanup(func() { _ = log.Close() })
	r := &statusRun{name: name, log: log.Name(), cmd: inNetns(w.t.Context(), w.Lab.Namespace(), command...), t: w.t}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	r.keys, err = r.cmd.StdinPipe()
	must(w.t, err)
	must(w.t, r.cmd.Start())
	return r
}

func (r *statusRun) shown() string {
	r.t.Helper()
	text, err := os.ReadFile(r.log)
	must(r.t, err)
	return string(text)
}

// checkTerminal checks that each drawing replaced the former one, and that the states came in order.
func (r *statusRun) checkTerminal(t *testing.T) {
	t.Helper()
	shown := r.shown()
	inOrder(t, shown, "Waiting", "Ready")
	inOrder(t, shown, "Creating", "Joining", "Running")
	if strings.Contains(shown, "\x1b[?1049h") {
		t.Errorf("%s hides the former content of the terminal", r.name)
	}
	screen, err := screenOf(shown)
	must(t, err)
	text := strings.Join(screen, "\n")
	if strings.Count(text, "Cluster fleet-default/status") != 1 || strings.Count(text, "WAITS FOR") != 1 ||
		!strings.HasPrefix(screen[0], "Cluster fleet-default/status  Ready for ") ||
		!regexp.MustCompile("(?m)^`- status-\\S+ +Running ").MatchString(text) {
		t.Errorf("%s shows at the end:\n%s", r.name, text)
	}
}

// inOrder checks that texts appear for the first time one after the other.
func inOrder(t *testing.T, shown string, texts ...string) {
	t.Helper()
	at := 0
	for _, text := range texts {
		next := strings.Index(shown[at:], text)
		if next < 0 {
			t.Errorf("no %q after the texts before it:\n%q", text, shown)
			return
		}
		at += next
	}
}

var errUnknownSequence = errors.New("unknown sequence")

// screenOf returns the lines that a terminal shows after a program has written a text. It knows the sequences of drover
// status.
func screenOf(text string) ([]string, error) {
	sequence := regexp.MustCompile(`^\x1b\[([0-9;]*)([AJKm])`)
	screen, row, column := [][]rune{nil}, 0, 0
	for len(text) > 0 {
		if found := sequence.FindStringSubmatch(text); found != nil {
			text = text[len(found[0]):]
			switch found[2] {
			case "A":
				up, err := strconv.Atoi(found[1])
				if err != nil {
					return nil, err
				}
				row = max(row-up, 0)
			case "J":
				screen = append(screen[:row], screen[row][:min(column, len(screen[row]))])
			case "K":
				screen[row] = screen[row][:min(column, len(screen[row]))]
			}
			continue
		}
		next := []rune(text)[0]
		text = text[len(string(next)):]
		switch next {
		case '\x1b':
			return nil, fmt.Errorf("%w: %q", errUnknownSequence, text[:min(len(text), 20)])
		case '\r':
			column = 0
		case '\n':
			if row++; row == len(screen) {
				screen = append(screen, nil)
			}
		default:
			if column == statusColumns {
				return nil, fmt.Errorf("a line is wider than the terminal: %s", string(screen[row]))
			}
			screen[row] = append(screen[row][:column], append([]rune{next}, screen[row][min(column+1,
				len(screen[row])):]...)...)
			column++
		}
	}
	out := make([]string, 0, len(screen))
	for _, line := range screen {
		out = append(out, string(line))
	}
	return out, nil
}
