package endpointtoken

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Trust is what it takes to verify the tokens of one cluster. Nothing in it is secret.
type Trust struct {
	// Audience is that of the cluster.
	Audience string
	set      jose.JSONWebKeySet
}

// trustFile is Trust as it is written.
type trustFile struct {
	Audience string            `json:"audience"`
	Keys     []jose.JSONWebKey `json:"keys"`
}

// Trust writes what the cluster is to know of keys.
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

// ParseTrust reads what Trust has written. Keys of another kind, private ones and ones without a name are errors.
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
			return nil, fmt.Errorf("read public keys: keys[%d] must be an Ed25519 public key with kid, and alg EdDSA", i)
		}
	}
	return &Trust{Audience: file.Audience, set: jose.JSONWebKeySet{Keys: file.Keys}}, nil
}
