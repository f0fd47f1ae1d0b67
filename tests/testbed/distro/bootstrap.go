package distro

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// bootstrapPrefix is the key prefix of K3s' and RKE2's bootstrap data in etcd. The rest of the key is derived from the
// token.
const bootstrapPrefix = "/bootstrap/"

// bootstrapRequired are the files that all servers of a cluster share, by their path in the server's folder.
var bootstrapRequired = []string{
	"tls/server-ca.crt", "tls/server-ca.key", "tls/client-ca.crt", "tls/client-ca.key", "tls/request-header-ca.crt",
	"tls/request-header-ca.key",
	"tls/service.key", "tls/service.pub", "tls/etcd/server-ca.crt", "tls/etcd/server-ca.key", "tls/etcd/peer-ca.crt",
	"tls/etcd/peer-ca.key",
}

// The files for the encryption of Secrets.
const (
	bootstrapEncryptionConfig = "cred/encryption-config.json"
	bootstrapEncryptionState  = "cred/encryption-state.json"
)

// bootstrapChanging are shared files that a server may lack and that change during the life of the cluster: the files
// for the encryption of Secrets. The version in etcd is current. Other versions are from before the last rotation.
var bootstrapChanging = []string{bootstrapEncryptionConfig, bootstrapEncryptionState}

// errOtherToken means that the cluster was created with another token.
var errOtherToken = errors.New("bootstrap data already found and encrypted with different token")

// bootstrap is what a server needs to belong to its cluster: files by their path in the server's folder. Joining
// servers get it from the server that they join. etcd stores it, encrypted with the token, so that a server without its
// certificates can recover them.
type bootstrap map[string][]byte

// readBootstrap reads this server's bootstrap data.
func readBootstrap(l Layout) (bootstrap, error) {
	found := bootstrap{}
	for _, name := range slices.Concat(bootstrapRequired, bootstrapChanging) {
		data, err := os.ReadFile(l.server(name))
		if errors.Is(err, fs.ErrNotExist) && slices.Contains(bootstrapChanging, name) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read what servers share: %w", err)
		}
		found[name] = data
	}
	return found, nil
}

// lacksBootstrap reports whether this server lacks a required file.
func (l Layout) lacksBootstrap() (bool, error) {
	for _, name := range bootstrapRequired {
		switch _, err := os.Stat(l.server(name)); {
		case errors.Is(err, fs.ErrNotExist):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("look at %s: %w", name, err)
		}
	}
	return false, nil
}

// writeMissing writes the files that this server lacks. It keeps existing files, because keys in use are never
// replaced.
func (b bootstrap) writeMissing(l Layout) error {
	return b.write(l, func(name string, missing bool) bool {
		return missing || slices.Contains(bootstrapChanging, name)
	})
}

// writeChanging writes the files that change during the life of the cluster.
func (b bootstrap) writeChanging(l Layout) error {
	return b.write(l, func(name string, _ bool) bool { return slices.Contains(bootstrapChanging, name) })
}

// writeAll replaces this server's files with the bootstrap data, which belong to the restored data.
func (b bootstrap) writeAll(l Layout) error {
	for _, name := range bootstrapChanging {
		if _, given := b[name]; given {
			continue
		}
		if err := os.Remove(l.server(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return b.write(l, func(string, bool) bool { return true })
}

func (b bootstrap) write(l Layout, wanted func(name string, missing bool) bool) error {
	for _, name := range slices.Concat(bootstrapRequired, bootstrapChanging) {
		data, given := b[name]
		if !given {
			if slices.Contains(bootstrapRequired, name) {
				return fmt.Errorf("the bootstrap data lack %s", name)
			}
			continue
		}
		has, err := os.ReadFile(l.server(name))
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if !wanted(name, missing) || !missing && bytes.Equal(has, data) {
			continue
		}
		if err := localfile.Write(l.server(name), data); err != nil {
			return err
		}
	}
	return nil
}

// bootstrapStore is the bootstrap data in etcd.
type bootstrapStore struct {
	members members
	token   string
}

// key returns the etcd key of a cluster with this token.
func (s bootstrapStore) key() string {
	sum := sha256.Sum256([]byte(s.token))
	return bootstrapPrefix + hex.EncodeToString(sum[:])[:12]
}

// load returns the data, or nil if there are none.
func (s bootstrapStore) load(ctx context.Context) (found bootstrap, err error) {
	err = s.members.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		reply, err := client.Get(ctx, bootstrapPrefix, clientv3.WithPrefix())
		if err != nil {
			return fmt.Errorf("read bootstrap data: %w", err)
		}
		for _, pair := range reply.Kvs {
			if string(pair.Key) == s.key() {
				found, err = openBootstrap(s.token, string(pair.Value))
				return err
			}
		}
		if len(reply.Kvs) > 0 {
			return errOtherToken
		}
		return nil
	})
	return found, err
}

// create writes the data if there are none.
func (s bootstrapStore) create(ctx context.Context, data bootstrap) error {
	sealed, err := sealBootstrap(s.token, data)
	if err != nil {
		return err
	}
	return s.members.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		reply, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.key()), "=", 0)).Then(
			clientv3.OpPut(s.key(), sealed)).Commit()
		if err != nil {
			return fmt.Errorf("write bootstrap data: %w", err)
		}
		if !reply.Succeeded {
			return errors.New("another server wrote the bootstrap data")
		}
		return nil
	})
}

// change updates the existing data. It fails if another server does so at the same time.
func (s bootstrapStore) change(ctx context.Context, f func(bootstrap) error) error {
	return s.members.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		reply, err := client.Get(ctx, s.key())
		if err != nil {
			return fmt.Errorf("read bootstrap data: %w", err)
		}
		if len(reply.Kvs) == 0 {
			return errors.New("etcd has no bootstrap data to change")
		}
		data, err := openBootstrap(s.token, string(reply.Kvs[0].Value))
		if err != nil {
			return err
		}
		if err := f(data); err != nil {
			return err
		}
		sealed, err := sealBootstrap(s.token, data)
		if err != nil {
			return err
		}
		unchanged := clientv3.Compare(clientv3.ModRevision(s.key()), "=", reply.Kvs[0].ModRevision)
		done, err := client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(s.key(), sealed)).Commit()
		if err != nil {
			return fmt.Errorf("write bootstrap data: %w", err)
		}
		if !done.Succeeded {
			return errors.New("another server changes the bootstrap data")
		}
		return nil
	})
}

// share writes this server's bootstrap data to etcd if there are none. It copies the changing files from etcd.
func (s bootstrapStore) share(ctx context.Context, l Layout) error {
	kept, err := s.load(ctx)
	if err != nil {
		return err
	}
	if kept != nil {
		return kept.writeChanging(l)
	}
	own, err := readBootstrap(l)
	if err != nil {
		return err
	}
	return s.create(ctx, own)
}

// shareBootstrap retries share until it succeeds, because etcd may have no leader for a moment.
func (r *run) shareBootstrap(ctx context.Context) error {
	var fatal error
	r.insist(ctx, "share bootstrap data", func() error {
		err := bootstrapStore{localMembers(r.layout), r.config.Token}.share(ctx, r.layout)
		if errors.Is(err, errOtherToken) {
			fatal, err = err, nil
		}
		return err
	})
	return fatal
}

// sealBootstrap encrypts with the token, in the format of the real distributions: the salt, a colon, and the rest in
// base64.
func sealBootstrap(token string, data bootstrap) (string, error) {
	plain, err := json.Marshal(data)
	if err != nil {
		return "", fmt.Errorf("encode bootstrap data: %w", err)
	}
	salt := rand.Text()
	aead, err := bootstrapCipher(token, salt)
	if err != nil {
		return "", err
	}
	return salt + ":" + base64.StdEncoding.EncodeToString(aead.Seal(nil, nil, plain, nil)), nil
}

func openBootstrap(token, sealed string) (bootstrap, error) {
	salt, text, _ := strings.Cut(sealed, ":")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode bootstrap data: %w", err)
	}
	aead, err := bootstrapCipher(token, salt)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, data, nil)
	if err != nil {
		return nil, fmt.Errorf("decrypt bootstrap data: %w", err)
	}
	var found bootstrap
	if err := json.Unmarshal(plain, &found); err != nil {
		return nil, fmt.Errorf("decode bootstrap data: %w", err)
	}
	return found, nil
}

func bootstrapCipher(token, salt string) (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha256.New, token, []byte(salt), 4096, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key of bootstrap data: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make cipher of bootstrap data: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// recoverBootstrap gets the bootstrap data of a server that has etcd data but lost its certificates. etcd cannot run
// without the certificates, so a copy of the data runs alone while the server reads from it.
func (r *run) recoverBootstrap(ctx context.Context) error {
	lacks, err := r.layout.lacksBootstrap()
	if err != nil || !lacks || r.config.DisableEtcd || !r.layout.votes() {
		return err
	}
	fmt.Fprintln(r.Log, "certificates are missing: reading them from a copy of etcd's data")
	copied := r.layout.etcdData() + "-tmp"
	if err := os.RemoveAll(copied); err != nil {
		return fmt.Errorf("remove old copy of etcd's data: %w", err)
	}
	defer func() { _ = os.RemoveAll(copied) }()
	if err := os.CopyFS(copied, os.DirFS(r.layout.etcdData())); err != nil {
		return fmt.Errorf("copy etcd's data: %w", err)
	}
	if err := os.Chmod(copied, 0o700); err != nil {
		return fmt.Errorf("copy etcd's data: %w", err)
	}
	return r.etcdAlone(ctx, copied, func(ctx context.Context, m members) error {
		found, err := bootstrapStore{m, r.config.Token}.load(ctx)
		if err != nil {
			return err
		}
		return r.replaceBootstrap(found, found.writeMissing)
	})
}

// replaceBootstrap writes bootstrap data from etcd. A server that ended before it saved them has none. It keeps its own
// files, or makes new ones, and saves them after its start, as the real distributions do.
func (r *run) replaceBootstrap(found bootstrap, write func(Layout) error) error {
	if found == nil {
		fmt.Fprintln(r.Log, "etcd has no bootstrap data: this server saves its own")
		return nil
	}
	return write(r.layout)
}
