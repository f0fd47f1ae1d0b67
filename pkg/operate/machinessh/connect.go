package machinessh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// connectTime is how long one address may take to connect and to log in.
const connectTime = 15 * time.Second

// Host is a host, and how to log in to it.
type Host struct {
	// Addresses are tried in order.
	Addresses []string
	Port      int
	User      string
	// Key is the private key, as PEM.
	Key []byte
	// Keys are the public keys of the host, one a line, as its node agent has reported them.
	Keys []byte
	// AnyKey accepts every key of the host.
	AnyKey bool
	// Dial defaults to a dialer of package net.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Warn gets a line if the connection is not verified.
	Warn func(line string)
}

// ErrNoHostKeys means that there is no key to verify the host with.
var ErrNoHostKeys = errors.New("the node agent has not reported the SSH keys of this host, so Drover cannot verify it")

// wrongKeyError means that another host answered, or that the host has new keys.
type wrongKeyError struct {
	address string
	got     ssh.PublicKey
	want    []ssh.PublicKey
}

// Error implements error.
func (e *wrongKeyError) Error() string {
	want := make([]string, 0, len(e.want))
	for _, key := range e.want {
		want = append(want, describe(key))
	}
	return fmt.Sprintf("the host at %s has the key %s, and the node agent reported %s: another host answers at this "+
		"address, or the host has new keys and its node agent does not run", e.address, describe(e.got),
		strings.Join(want, ", "))
}

func describe(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// Connect logs in to the first address that answers as the host. The error lists what failed at each address, and
// contains nothing secret.
func Connect(ctx context.Context, host Host) (*ssh.Client, error) {
	signer, err := ssh.ParsePrivateKey(host.Key)
	if err != nil {
		return nil, errors.New("the private key in the machine state cannot be read: " +
			"it must be PEM without a passphrase")
	}
	keys := parseKeys(host.Keys)
	if len(keys) == 0 && !host.AnyKey {
		return nil, ErrNoHostKeys
	}
	if len(host.Addresses) == 0 {
		return nil, errors.New("the driver has recorded no address of this host")
	}
	if host.Dial == nil {
		host.Dial = (&net.Dialer{}).DialContext
	}
	var failures []error
	for _, address := range host.Addresses {
		client, err := host.login(ctx, net.JoinHostPort(address, strconv.Itoa(host.Port)), signer, keys)
		if err == nil {
			return client, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	// Another host at one address explains more than a silence at the others.
	for _, failure := range failures {
		if wrong, ok := errors.AsType[*wrongKeyError](failure); ok {
			return nil, wrong
		}
	}
	return nil, errors.Join(failures...)
}

// login connects to one address and authenticates both sides.
func (h *Host) login(ctx context.Context, address string, signer ssh.Signer, keys []ssh.PublicKey) (*ssh.Client,
	error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := h.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	var wrong *wrongKeyError
	connection, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: h.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyAlgorithms: algorithms(keys, h.AnyKey),
		HostKeyCallback: func(_ string, _ net.Addr, got ssh.PublicKey) error {
			if slices.ContainsFunc(keys, func(key ssh.PublicKey) bool { return isSame(key, got) }) {
				return nil
			}
			if h.AnyKey {
				h.warn("The host at " + address + " is not verified; its key is " + describe(got))
				return nil
			}
			wrong = &wrongKeyError{address: address, got: got, want: keys}
			return wrong
		},
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return ssh.NewClient(connection, channels, requests), nil
	case wrong != nil:
		err = wrong
	case context.Cause(ctx) != nil:
		err = fmt.Errorf("log in to %s: %w", address, context.Cause(ctx))
	default:
		err = fmt.Errorf("log in to %s as %s: %w", address, h.User, err)
	}
	_ = conn.Close()
	return nil, err
}

func (h *Host) warn(line string) {
	if h.Warn != nil {
		h.Warn(line)
	}
}

func isSame(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }

// parseKeys reads the reported keys. It skips lines that it does not understand, such as keys of a former type.
func parseKeys(lines []byte) []ssh.PublicKey {
	var keys []ssh.PublicKey
	for line := range strings.Lines(string(lines)) {
		if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// algorithms returns the algorithms of the known keys, so that the host uses one of these keys. It returns nil, which
// means all, if any key is accepted.
func algorithms(keys []ssh.PublicKey, anyKey bool) []string {
	if anyKey {
		return nil
	}
	var names []string
	for _, key := range keys {
		if key.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		names = append(names, key.Type())
	}
	return names
}
