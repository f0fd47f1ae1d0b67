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

	"github.com/drover-io/drover/pkg/local/localfile"
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
	if err := localfile.Write(pair.KeyFile,
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})); err != nil {
		return err
	}
	return localfile.Write(pair.CertFile, encodeCert(der))
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
