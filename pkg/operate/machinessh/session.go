package machinessh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// keepAlive is the time between two questions to the host, and unanswered how many of them may remain without an
	// answer.
	keepAlive  = 15 * time.Second
	unanswered = 3
	// endTime is how long a command may run on after it was interrupted.
	endTime = 2 * time.Second
)

// Exit codes that are not those of the command, as ssh and shells use them.
const (
	// ExitFailed means that the connection failed.
	ExitFailed = 255
	// exitInterrupted means that the user interrupted the command.
	exitInterrupted = 130
	// exitSignal is added to the number of the signal that ended the command.
	exitSignal = 128
)

// signals are the numbers of the signals that SSH names.
var signals = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "USR1": 10,
	"SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15}

// Run is what to run on a host.
type Run struct {
	// Command is a command line for the user's shell on the host. Empty starts an interactive shell.
	Command string
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	// Terminal is the user's terminal, if the host must make one for the command.
	Terminal Terminal
}

// Do runs a command or a shell, and returns its exit code. A context that ends interrupts it. The error says why the
// exit code is unknown.
func Do(ctx context.Context, client *ssh.Client, run Run) (code int, err error) {
	session, err := client.NewSession()
	if err != nil {
		return ExitFailed, fmt.Errorf("start a session: %w", err)
	}
	defer func() { _ = session.Close() }()
	session.Stdin, session.Stdout, session.Stderr = run.In, run.Out, run.Err
	if run.Terminal != nil {
		restore, err := attach(session, run.Terminal)
		if err != nil {
			return ExitFailed, err
		}
		defer restore()
	}
	if run.Command == "" {
		err = session.Shell()
	} else {
		err = session.Start(run.Command)
	}
	if err != nil {
		return ExitFailed, fmt.Errorf("start the command: %w", err)
	}
	return wait(ctx, client, session)
}

// wait waits for the end of a command.
func wait(ctx context.Context, client *ssh.Client, session *ssh.Session) (int, error) {
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go keepAlives(watched, client)
	select {
	case err := <-ended:
		return exitCode(err)
	case <-ctx.Done():
	}
	_ = session.Signal(ssh.SIGINT) // a host that does not know it closes the session below
	select {
	case <-ended: //nolint:errcheck // the user ended the session
	case <-time.After(endTime):
	}
	return exitInterrupted, nil
}

// keepAlives closes a connection on which the host does not answer any more. Without it, a terminal would hang until
// the kernel gives up.
func keepAlives(ctx context.Context, client *ssh.Client) {
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	answers := make(chan struct{}, unanswered)
	for open := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-answers:
			open = 0
		case <-ticker.C:
			if open == unanswered {
				_ = client.Close()
				return
			}
			open++
			go func() {
				if _, _, err := client.SendRequest("keepalive@openssh.com", true, nil); err == nil {
					answers <- struct{}{}
				}
			}()
		}
	}
}

// exitCode converts the end of a session. The host reports a code, a signal, or nothing.
func exitCode(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		if number, known := signals[exit.Signal()]; known {
			return exitSignal + number, nil
		}
		return exit.ExitStatus(), nil
	}
	if _, ok := errors.AsType[*ssh.ExitMissingError](err); ok {
		return ExitFailed, errors.New("the connection to the host ended before the command did")
	}
	return ExitFailed, fmt.Errorf("the session failed: %w", err)
}
