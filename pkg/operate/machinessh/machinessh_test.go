package machinessh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/drover-io/drover/pkg/testkit/sshserver"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hostOf is how to log in to a server.
func hostOf(s *sshserver.Server) Host {
	return Host{Addresses: []string{s.Address.IP.String()}, Port: s.Address.Port, User: s.User, Key: s.Key,
		Keys: sshserver.Lines(s.Hosts...)}
}

func TestConnect_VerifiesTheHost(t *testing.T) {
	s := sshserver.New(t, "rsa", "ecdsa", "ed25519")
	other := sshserver.HostKey(t, "ed25519")
	for name, c := range map[string]struct {
		keys     []byte
		anyKey   bool
		wantErr  []string
		wantWarn string
	}{
		"all keys":        {keys: sshserver.Lines(s.Hosts...)},
		"only RSA":        {keys: sshserver.Lines(s.Hosts[0])},
		"only ECDSA":      {keys: sshserver.Lines(s.Hosts[1])},
		"only Ed25519":    {keys: sshserver.Lines(s.Hosts[2])},
		"among others":    {keys: append([]byte("ssh-xyz AAAA\n\n"), sshserver.Lines(other, s.Hosts[2])...)},
		"no keys":         {wantErr: []string{ErrNoHostKeys.Error()}},
		"unknown formats": {keys: []byte("ssh-xyz AAAA\n"), wantErr: []string{ErrNoHostKeys.Error()}},
		"another key": {keys: sshserver.Lines(other), wantErr: []string{"another host answers", s.Address.String(),
			ssh.FingerprintSHA256(s.Hosts[2].PublicKey()), ssh.FingerprintSHA256(other.PublicKey())}},
		"no keys, not verified": {anyKey: true, wantWarn: "is not verified; its key is "},
		"another key, not verified": {
			keys: sshserver.Lines(other), anyKey: true, wantWarn: "is not verified; its key is ",
		},
		"known keys, not required": {keys: sshserver.Lines(s.Hosts...), anyKey: true},
	} {
		t.Run(name, func(t *testing.T) {
			host := hostOf(s)
			host.Keys, host.AnyKey = c.keys, c.anyKey
			warned := ""
			host.Warn = func(line string) { warned += line }
			client, err := Connect(t.Context(), host)
			if err == nil {
				_ = client.Close()
			}
			if (err != nil) != (c.wantErr != nil) {
				t.Fatalf("error %v, want %q", err, c.wantErr)
			}
			for _, want := range c.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
			if (warned != "") != (c.wantWarn != "") || !strings.Contains(warned, c.wantWarn) {
				t.Errorf("warned %q, want %q", warned, c.wantWarn)
			}
		})
	}
}

func TestConnect_TriesTheAddresses(t *testing.T) {
	s, another := sshserver.New(t, "ed25519"), sshserver.New(t, "ed25519")
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		check(t, err)
		var dialer net.Dialer
		switch host {
		case "own":
			return dialer.DialContext(ctx, network, s.Address.String())
		case "another":
			return dialer.DialContext(ctx, network, another.Address.String())
		}
		return nil, errors.New("no route to host")
	}
	for name, c := range map[string]struct {
		addresses []string
		wantErr   string
	}{
		"the second":           {addresses: []string{"away", "own"}},
		"behind another host":  {addresses: []string{"another", "own"}},
		"none":                 {wantErr: "has recorded no address"},
		"no answer":            {addresses: []string{"away", "far"}, wantErr: "no route to host"},
		"another host, no own": {addresses: []string{"another", "away"}, wantErr: "another host answers"},
	} {
		host := hostOf(s)
		host.Addresses, host.Dial = c.addresses, dial
		client, err := Connect(t.Context(), host)
		if err == nil {
			_ = client.Close()
		}
		if (err != nil) != (c.wantErr != "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: error %v, want %q", name, err, c.wantErr)
		}
	}
}

func TestConnect_ErrorsContainNoKey(t *testing.T) {
	s := sshserver.New(t, "ed25519")
	for name, c := range map[string]struct {
		change  func(h *Host)
		wantErr string
	}{
		"an unreadable key": {func(h *Host) { h.Key = []byte("hunter2") }, "must be PEM without a passphrase"},
		"another user":      {func(h *Host) { h.User = "core" }, "log in to " + s.Address.String() + " as core"},
	} {
		host := hostOf(s)
		c.change(&host)
		_, err := Connect(t.Context(), host)
		if err == nil || !strings.Contains(err.Error(), c.wantErr) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.wantErr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	host := hostOf(s)
	host.Dial = func(context.Context, string, string) (net.Conn, error) {
		silent, _ := net.Pipe()
		cancel()
		return silent, nil
	}
	if _, err := Connect(ctx, host); !errors.Is(err, context.Canceled) {
		t.Errorf("a connection that the user ended: %v", err)
	}
}

// do runs a command on a new server.
func do(ctx context.Context, t *testing.T, run Run) (s *sshserver.Server, code int, err error) {
	t.Helper()
	s = sshserver.New(t, "ed25519")
	client, err := Connect(t.Context(), hostOf(s))
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	code, err = Do(ctx, client, run)
	return s, code, err
}

func TestDo_PassesStreamsAndExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		command, in, out, err string
		code                  int
		wantErr               string
	}{
		"success":        {command: "0"},
		"a failure":      {command: "42", code: 42},
		"both outputs":   {command: "both", out: "out", err: "err"},
		"input":          {command: "cat", in: "text\n", out: "text\n"},
		"a shell":        {in: "echo\n", out: "echo\n"},
		"killed":         {command: "killed", code: 137},
		"the host stops": {command: "cut", code: 255, wantErr: "ended before the command"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems bytes.Buffer
			_, code, err := do(t.Context(), t, Run{Command: c.command, In: strings.NewReader(c.in), Out: &out,
				Err: &problems})
			if code != c.code || out.String() != c.out || problems.String() != c.err {
				t.Errorf("exit code %d, %q, %q", code, out.String(), problems.String())
			}
			if (err != nil) != (c.wantErr != "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("error %v, want %q", err, c.wantErr)
			}
		})
	}
}

// onWrite calls a function at each write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func TestDo_InterruptsTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, _ := io.Pipe()
	s, code, err := do(ctx, t, Run{Command: "sleep", In: silent, Out: onWrite(cancel), Err: io.Discard})
	if code != 130 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if diff := cmp.Diff([]string{"exec sleep", "signal INT"}, s.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// fakeTerminal is a terminal whose size changes once.
type fakeTerminal struct {
	width   int
	events  []string
	changes chan os.Signal
	// attached is called when the terminal is attached.
	attached func()
}

func (f *fakeTerminal) Name() string                         { return "vt100" }
func (f *fakeTerminal) Size() (width, height int, err error) { return f.width, 24, nil }
func (f *fakeTerminal) Raw() (restore func(), err error) {
	f.events = append(f.events, "raw")
	return func() { f.events = append(f.events, "restored") }, nil
}

func (f *fakeTerminal) Resized() (changes <-chan os.Signal, stop func()) {
	go f.attached()
	return f.changes, func() { f.events = append(f.events, "stopped") }
}

func TestDo_HasTheUsersTerminal(t *testing.T) {
	typed, keys := io.Pipe()
	f := &fakeTerminal{width: 80, changes: make(chan os.Signal)}
	s := sshserver.New(t, "ed25519")
	client, err := Connect(t.Context(), hostOf(s))
	check(t, err)
	defer func() { _ = client.Close() }()
	f.attached = func() {
		f.width = 132
		f.changes <- syscall.SIGWINCH
		if size := <-s.Resized; size != "132x24" {
			t.Errorf("the new size is %s", size)
		}
		_, _ = io.WriteString(keys, "\x03")
		_ = keys.Close()
	}
	var out bytes.Buffer
	code, err := Do(t.Context(), client, Run{In: typed, Out: &out, Err: io.Discard, Terminal: f})
	if code != 0 || err != nil || out.String() != "\x03" {
		t.Errorf("exit code %d, %q, %v", code, out.String(), err)
	}
	if diff := cmp.Diff([]string{"terminal vt100 80x24", "shell"}, s.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"raw", "stopped", "restored"}, f.events); diff != "" {
		t.Errorf("the terminal (-want +got):\n%s", diff)
	}
}

func TestTerminalOf_IsNilWithoutATerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer func() { _ = null.Close() }()
	if TerminalOf(null, null, "") != nil || TerminalOf(&bytes.Buffer{}, null, "") != nil {
		t.Error("a file is taken for a terminal")
	}
}
