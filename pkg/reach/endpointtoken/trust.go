package endpointtoken

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Trust contains what is needed to verify the tokens of one cluster. It is not secret.
type Trust struct {
	// Audience is the cluster's audience.
	Audience string
	set      jose.JSONWebKeySet
}

// trustFile is the encoding of Trust.
type trustFile struct {
	Audience string            `json:"audience"`
	Keys     []jose.JSONWebKey `json:"keys"`
}

// Trust encodes the public keys for the cluster.
func (k Keys) Trust(audience string) ([]byte, error) {
	keys, err := k.public()
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(trustFile{Audience: audience, Keys: keys}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode public keys: %w", err)
	}
	return append(content, '\n'), nil
}

// ParseTrust decodes the output of Keys.Trust. It refuses other kinds of keys, private keys and keys without an ID.
func ParseTrust(content []byte) (*Trust, error) {
	var file trustFile
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("read public keys: %w", err)
	}
	if file.Audience == "" {
		return nil, errors.New("read public keys: audience must be that of the cluster")
	}
	for i, key := range file.Keys {
		if _, public := key.Key.(ed25519.PublicKey); !public || key.KeyID == "" || key.Algorithm != string(jose.EdDSA) {
			return nil, fmt.Errorf("read public keys: keys[%d] must be an Ed25519 public key with kid, and alg EdDSA",
				i)
		}
	}
	return &Trust{Audience: file.Audience, set: jose.JSONWebKeySet{Keys: file.Keys}}, nil
}
