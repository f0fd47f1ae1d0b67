package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func pairIn(dir, name string) Pair {
	return Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readPair reads both files and checks that they match.
func readPair(pair Pair) (*x509.Certificate, crypto.Signer, error) {
	both, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	signer, ok := both.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, errors.New("key cannot sign")
	}
	return both.Leaf, signer, nil
}

// writePair writes the key first. A certificate without a key is an error, but a key without a certificate is replaced.
func writePair(pair Pair, der []byte, key *ecdsa.PrivateKey) error {
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	if err := WriteFile(pair.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})); err != nil {
		return err
	}
	return WriteFile(pair.CertFile, encodeCert(der))
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// WriteFile replaces a file atomically, so that a crash leaves the old or the new file. Only the owner can read it,
// because CreateTemp makes files with mode 0600.
func WriteFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(content); err != nil {
		file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Sync(); err != nil {
		file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
