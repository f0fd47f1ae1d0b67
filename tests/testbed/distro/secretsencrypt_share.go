package distro

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// Paths of a server's encryption files, as in the real distributions. The files are part of the bootstrap data, so a
// snapshot alone does not contain the keys.
func (l Layout) encryptionConfig() string { return l.server(bootstrapEncryptionConfig) }
func (l Layout) encryptionState() string  { return l.server(bootstrapEncryptionState) }

// readEncryption reads the files of a server. They do not exist before its first start.
func readEncryption(l Layout) (encryption, error) {
	config, err := os.ReadFile(l.encryptionConfig())
	if err != nil {
		return encryption{}, fmt.Errorf("read encryption configuration: %w", err)
	}
	state, err := os.ReadFile(l.encryptionState())
	if err != nil {
		return encryption{}, fmt.Errorf("read state of encryption: %w", err)
	}
	return encryption{Config: config, State: string(state)}, nil
}

func (e encryption) write(l Layout) error {
	if err := localfile.Write(l.encryptionConfig(), e.Config); err != nil {
		return err
	}
	return localfile.Write(l.encryptionState(), []byte(e.State))
}

// shareEncryption gives a starting server the cluster's encryption. The first server creates it, or shares its own.
func (s bootstrapStore) shareEncryption(ctx context.Context, l Layout) error {
	kept, err := s.load(ctx)
	switch {
	case err != nil:
		return err
	case kept == nil:
		return errors.New("etcd has no bootstrap data yet")
	case kept.encrypts():
		return kept.writeChanging(l)
	}
	own, err := readEncryption(l)
	if errors.Is(err, fs.ErrNotExist) {
		own, err = newEncryption()
	}
	if err != nil {
		return err
	}
	err = s.change(ctx, func(kept bootstrap) error {
		if kept.encrypts() {
			return errors.New("another server has made the cluster's encryption")
		}
		kept.setEncryption(own)
		return nil
	})
	if err != nil {
		return err
	}
	return own.write(l)
}

// keepEncryption stores the cluster's encryption.
func (s bootstrapStore) keepEncryption(ctx context.Context, e encryption) error {
	return s.change(ctx, func(kept bootstrap) error {
		kept.setEncryption(e)
		return nil
	})
}

// encrypts reports whether the cluster has an encryption.
func (b bootstrap) encrypts() bool { return b[bootstrapEncryptionConfig] != nil }

func (b bootstrap) setEncryption(e encryption) {
	b[bootstrapEncryptionConfig], b[bootstrapEncryptionState] = e.Config, []byte(e.State)
}
