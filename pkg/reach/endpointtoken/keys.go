package endpointtoken

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// KeyLife is how long a key signs tokens.
	KeyLife = 90 * 24 * time.Hour
	// MaxLife is the longest lifetime of a token, whatever the settings.
	MaxLife = 7 * 24 * time.Hour
	// DefaultLife is the default lifetime of tokens. It bridges an outage of Drover or of the connection to it: a
	// working day and the night after it.
	DefaultLife = 12 * time.Hour
	// LeastLife is the shortest lifetime, as for service account tokens, because client clocks differ.
	LeastLife = 10 * time.Minute
	// leeway is the tolerated difference between the clocks of two machines.
	leeway = time.Minute
)

// Keys in the Secret. They are stored: do not change them.
const (
	currentKey = "current" // PEM of the private key that signs now
	nextKey    = "next"    // PEM of the private key that signs next
	formerKey  = "former"  // PEM of the previous public key, while its tokens may be valid
	sinceKey   = "since"   // RFC 3339: when the current key became current
)

// Keys are the keys of one cluster. The cluster trusts the next key long before it signs, so a key change needs no
// wait.
type Keys struct {
	current, next ed25519.PrivateKey
	former        ed25519.PublicKey
	since         time.Time
}

// String hides the keys.
func (k Keys) String() string { return "Keys{since " + k.since.Format(time.RFC3339) + "}" }

// GoString hides the keys.
func (k Keys) GoString() string { return k.String() }

// NewKeys generates the keys of a cluster.
func NewKeys(random io.Reader, now time.Time) (Keys, error) {
	current, err := draw(random)
	if err != nil {
		return Keys{}, err
	}
	next, err := draw(random)
	return Keys{current: current, next: next, since: now.UTC().Truncate(time.Second)}, err
}

func draw(random io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Turn rotates the keys when due. The next key becomes current when the current one is old. The former key is removed
// when its tokens have expired. changed is false when nothing is due.
func (k Keys) Turn(random io.Reader, now time.Time) (turned Keys, changed bool, err error) {
	age := now.Sub(k.since)
	switch {
	case age >= KeyLife, age < -leeway: // a future time is invalid, because the key would otherwise be used until then
		next, err := draw(random)
		if err != nil {
			return k, false, err
		}
		return Keys{current: k.next, next: next, former: publicOf(k.current), since: now.UTC().Truncate(time.Second)},
			true, nil
	case k.former != nil && age > MaxLife+leeway:
		k.former = nil
		return k, true, nil
	}
	return k, false, nil
}

// Data returns the data of the Secret.
func (k Keys) Data() (map[string][]byte, error) {
	data := map[string][]byte{sinceKey: []byte(k.since.UTC().Format(time.RFC3339))}
	for name, key := range map[string]ed25519.PrivateKey{currentKey: k.current, nextKey: k.next} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		data[name] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	if k.former != nil {
		der, err := x509.MarshalPKIXPublicKey(k.former)
		if err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		data[formerKey] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	return data, nil
}

// ParseKeys reads the data of a Secret. The error names the invalid key of the data and contains no part of it.
func ParseKeys(data map[string][]byte) (Keys, error) {
	since, err := time.Parse(time.RFC3339, string(data[sinceKey]))
	if err != nil {
		return Keys{}, errors.New(sinceKey + " must be a time such as 2026-01-31T12:00:00Z")
	}
	k := Keys{since: since}
	for name, into := range map[string]*ed25519.PrivateKey{currentKey: &k.current, nextKey: &k.next} {
		if *into, err = privateKey(data[name]); err != nil {
			return Keys{}, fmt.Errorf("%s %w", name, err)
		}
	}
	if len(data[formerKey]) == 0 {
		return k, nil
	}
	if k.former, err = publicKey(data[formerKey]); err != nil {
		return Keys{}, fmt.Errorf("%s %w", formerKey, err)
	}
	return k, nil
}

func privateKey(content []byte) (ed25519.PrivateKey, error) {
	if block, _ := pem.Decode(content); block != nil {
		if found, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := found.(ed25519.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, errors.New("must be an Ed25519 private key in PEM")
}

func publicKey(content []byte) (ed25519.PublicKey, error) {
	if block, _ := pem.Decode(content); block != nil {
		if found, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			if key, ok := found.(ed25519.PublicKey); ok {
				return key, nil
			}
		}
	}
	return nil, errors.New("must be an Ed25519 public key in PEM")
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey {
	public, _ := key.Public().(ed25519.PublicKey)
	return public
}

// public are the public keys of valid tokens: the current, the next and the former key.
func (k Keys) public() ([]jose.JSONWebKey, error) {
	all := []ed25519.PublicKey{publicOf(k.current), publicOf(k.next)}
	if k.former != nil {
		all = append(all, k.former)
	}
	keys := make([]jose.JSONWebKey, 0, len(all))
	for _, key := range all {
		id, err := keyID(key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.EdDSA), Use: "sig"})
	}
	return keys, nil
}

// keyID is the thumbprint of a key. (RFC 7638.)
func keyID(key ed25519.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("name a key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
