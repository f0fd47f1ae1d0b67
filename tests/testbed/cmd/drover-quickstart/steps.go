package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/drover-io/drover/tests/testbed/rig"
)

// steps shows numbered steps, and continues the numbers of scripts/steps. On a terminal a running step is one line with
// the elapsed time. Elsewhere it prints a line when a step begins and another when it ends.
type steps struct {
	out           io.Writer
	terminal      bool
	number, total int
}

// run shows a step while it runs.
func (s *steps) run(title string, do func() error) error {
	return s.show(title, func(line string) error {
		if !s.terminal {
			return do()
		}
		start, done := time.Now(), make(chan error, 1)
		go func() { done <- do() }()
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			fmt.Fprintf(s.out, "\r\033[K%s … %s", line, elapsed(start))
			select {
			case err := <-done:
				fmt.Fprint(s.out, "\r\033[K")
				return err
			case <-ticker.C:
			}
		}
	})
}

// runWithProgress shows a step that reports its progress.
func (s *steps) runWithProgress(title string, do func(*rig.Progress) error) error {
	return s.show(title, func(line string) error {
		if s.terminal {
			fmt.Fprintln(s.out, line)
		}
		return do(&rig.Progress{Out: s.out, Terminal: s.terminal})
	})
}

func (s *steps) show(title string, do func(line string) error) error {
	line := fmt.Sprintf("[%d/%d] %s", s.number, s.total, title)
	s.number++
	if !s.terminal {
		fmt.Fprintln(s.out, line)
	}
	start := time.Now()
	if err := do(line); err != nil {
		fmt.Fprintf(s.out, "%s: failed after %s\n", line, elapsed(start))
		return err
	}
	fmt.Fprintf(s.out, "%s: done in %s\n", line, elapsed(start))
	return nil
}

// log is the output for messages while a step is shown. On a terminal, a message replaces the step's line.
func (s *steps) log() io.Writer {
	if !s.terminal {
		return s.out
	}
	return writerFunc(func(message []byte) (int, error) {
		if _, err := fmt.Fprintf(s.out, "\r\033[K%s", message); err != nil {
			return 0, err
		}
		return len(message), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func elapsed(since time.Time) time.Duration { return time.Since(since).Round(time.Second) }

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
