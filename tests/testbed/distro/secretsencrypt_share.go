package distro

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// encryptionKey is where the servers' encryption is kept in the cluster's etcd, sealed with their token: whoever has a snapshot alone has no keys.
const encryptionKey = "/stand-in/encryption"

// Where a server keeps its encryption, as the real distributions do.
func (l Layout) encryptionConfig() string { return l.cred("encryption-config.json") }
func (l Layout) encryptionState() string  { return l.cred("encryption-state.json") }

// readEncryption reads the files of a server. There are none before its first start.
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
	if err := writeFile(l.encryptionConfig(), e.Config); err != nil {
		return err
	}
	return writeFile(l.encryptionState(), []byte(e.State))
}

// shareEncryption gives a server that starts the encryption that the cluster has. The first server of all makes it, or brings its own.
func shareEncryption(ctx context.Context, l Layout, m members, token string) error {
	kept, known, err := m.encryption(ctx, token)
	if err != nil {
		return err
	}
	own, err := readEncryption(l)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case known && err == nil && bytes.Equal(own.Config, kept.Config) && own.State == kept.State:
		return nil
	case known:
		return kept.write(l)
	case err != nil:
		if own, err = newEncryption(); err != nil {
			return err
		}
	}
	if err := m.keepEncryption(ctx, token, own, true); err != nil {
		return err
	}
	return own.write(l)
}

// encryption reads what the cluster has; known is false when nobody has written it.
func (m members) encryption(ctx context.Context, token string) (e encryption, known bool, err error) {
	err = m.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		reply, err := client.Get(ctx, encryptionKey)
		if err != nil || len(reply.Kvs) == 0 {
			return err
		}
		data, err := unseal(token, reply.Kvs[0].Value)
		if err != nil {
			return err
		}
		known = true
		return json.Unmarshal(data, &e)
	})
	if err != nil {
		return encryption{}, false, fmt.Errorf("read the cluster's encryption: %w", err)
	}
	return e, known, nil
}

// keepEncryption writes what the cluster has. With first, it fails when somebody has written before.
func (m members) keepEncryption(ctx context.Context, token string, e encryption, first bool) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode encryption: %w", err)
	}
	sealed, err := seal(token, data)
	if err != nil {
		return err
	}
	return m.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		txn := client.Txn(ctx)
		if first {
			txn = txn.If(clientv3.Compare(clientv3.CreateRevision(encryptionKey), "=", 0))
		}
		reply, err := txn.Then(clientv3.OpPut(encryptionKey, string(sealed))).Commit()
		if err != nil {
			return fmt.Errorf("keep the cluster's encryption: %w", err)
		}
		if !reply.Succeeded {
			return errors.New("another server has made the cluster's encryption")
		}
		return nil
	})
}

// saltSize is the length of what comes before everything that was sealed.
const saltSize = 16

// seal encrypts data with a token.
func seal(token string, data []byte) ([]byte, error) {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	box, err := sealed(token, salt)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize()) // a key seals one message, for its salt is new
	return box.Seal(salt, nonce, data, nil), nil
}

// unseal reverses seal.
func unseal(token string, data []byte) ([]byte, error) {
	if len(data) < saltSize {
		return nil, errors.New("unseal: too short")
	}
	box, err := sealed(token, data[:saltSize])
	if err != nil {
		return nil, err
	}
	plain, err := box.Open(nil, make([]byte, box.NonceSize()), data[saltSize:], nil)
	if err != nil {
		return nil, fmt.Errorf("unseal, is the token another one: %w", err)
	}
	return plain, nil
}

func sealed(token string, salt []byte) (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha256.New, token, salt, 4096, 32)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return cipher.NewGCM(block)
}
