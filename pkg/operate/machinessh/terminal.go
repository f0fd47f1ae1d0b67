package machinessh

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"
)

// Terminal is the terminal of a user.
type Terminal interface {
	// Name is the type of the terminal, as in TERM.
	Name() string
	// Size returns columns and rows.
	Size() (width, height int, err error)
	// Raw passes each key, also Ctrl-C, to the program. restore undoes it.
	Raw() (restore func(), err error)
	// Resized gets a value after each change of the size, until stop is called.
	Resized() (changes <-chan os.Signal, stop func())
}

// fallbackName is the type of a terminal whose type is unknown.
const fallbackName = "xterm"

// attach makes a terminal on the host like the user's. restore gives the user's terminal back.
func attach(session *ssh.Session, user Terminal) (restore func(), err error) {
	width, height, err := user.Size()
	if err != nil {
		return nil, fmt.Errorf("read the size of the terminal: %w", err)
	}
	if err := session.RequestPty(cmp.Or(user.Name(), fallbackName), height, width, ssh.TerminalModes{}); err != nil {
		return nil, fmt.Errorf("make a terminal on the host: %w", err)
	}
	cooked, err := user.Raw()
	if err != nil {
		return nil, fmt.Errorf("prepare the terminal: %w", err)
	}
	changes, stop := user.Resized()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-changes:
				if width, height, err := user.Size(); err == nil {
					_ = session.WindowChange(height, width) // an ended session needs no size
				}
			}
		}
	}()
	return func() {
		close(done)
		stop()
		cooked()
	}, nil
}

// userTerminal is a terminal of this process.
type userTerminal struct {
	name    string
	in, out int
}

// TerminalOf returns the terminal of two streams, nil if one of them is no terminal. name is its type, as in TERM.
func TerminalOf(in, out any, name string) Terminal {
	input, ok := in.(*os.File)
	output, also := out.(*os.File)
	if !ok || !also || !term.IsTerminal(int(input.Fd())) || !term.IsTerminal(int(output.Fd())) {
		return nil
	}
	return userTerminal{name, int(input.Fd()), int(output.Fd())}
}

// Name implements Terminal.
func (t userTerminal) Name() string { return t.name }

// Size implements Terminal.
func (t userTerminal) Size() (width, height int, err error) { return term.GetSize(t.out) }

// Raw implements Terminal.
func (t userTerminal) Raw() (restore func(), err error) {
	before, err := term.MakeRaw(t.in)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(t.in, before) }, nil
}

// Resized implements Terminal.
func (userTerminal) Resized() (changes <-chan os.Signal, stop func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	return resized, func() { signal.Stop(resized) }
}
