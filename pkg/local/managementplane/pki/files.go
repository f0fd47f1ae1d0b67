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

// readPair reads both files and checks that they belong together.
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

// writePair writes the key first: a certificate without a key is reported as damage, a key without a certificate is
// simply replaced.
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

// WriteFile replaces a file whole, so that a crash leaves the old one or the new one. Only its owner can read it: CreateTemp makes
// files 0600.
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
