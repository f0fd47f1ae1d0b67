package distro

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// Stages of a rotation of the keys that encrypt Secrets, with the names of the real distributions. The second and third
// stage of a reencryption exist only on the node that runs it. After a restart, that node is in the stage before.
const (
	stageStart             = "start"
	stagePrepare           = "prepare"
	stageRotate            = "rotate"
	stageReencryptRequest  = "reencrypt_request"
	stageReencryptActive   = "reencrypt_active"
	stageReencryptFinished = "reencrypt_finished"
)

// encryption is the shared configuration for the encryption of Secrets, as in the servers' files.
type encryption struct {
	// Config is the configuration that API servers read.
	Config []byte `json:"config"`
	// State is STAGE-HASH: the stage of the rotation and the hash of Config. The servers' nodes have it too, so that
	// servers can compare it.
	State string `json:"state"`
}

// newEncryption returns the encryption of a new cluster.
func newEncryption() (encryption, error) {
	key, err := newEncryptionKey("aescbckey")
	if err != nil {
		return encryption{}, err
	}
	return encryptionWith([]apiserverv1.Key{key}, stageStart)
}

func newEncryptionKey(name string) (apiserverv1.Key, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return apiserverv1.Key{}, fmt.Errorf("make encryption key: %w", err)
	}
	return apiserverv1.Key{Name: name, Secret: base64.StdEncoding.EncodeToString(key)}, nil
}

// encryptionWith returns a configuration in which API servers write with the first key and read with all keys.
func encryptionWith(keys []apiserverv1.Key, stage string) (encryption, error) {
	config, err := json.Marshal(apiserverv1.EncryptionConfiguration{
		TypeMeta: metav1.TypeMeta{Kind: "EncryptionConfiguration", APIVersion: "apiserver.config.k8s.io/v1"},
		Resources: []apiserverv1.ResourceConfiguration{{
			Resources: []string{"secrets"},
			Providers: []apiserverv1.ProviderConfiguration{
				{AESCBC: &apiserverv1.AESConfiguration{Keys: keys}},
				{Identity: &apiserverv1.IdentityConfiguration{}}, // objects written before encryption was on
			},
		}},
	})
	if err != nil {
		return encryption{}, fmt.Errorf("encode encryption configuration: %w", err)
	}
	return encryption{Config: config, State: stage + "-" + hashOf(config)}, nil
}

func hashOf(config []byte) string {
	sum := sha256.Sum256(config)
	return hex.EncodeToString(sum[:])
}

// stage and hash return the two parts of the state.
func (e encryption) stage() string { stage, _, _ := strings.Cut(e.State, "-"); return stage }
func (e encryption) hash() string  { _, hash, _ := strings.Cut(e.State, "-"); return hash }

// keys returns the keys of the configuration in order.
func (e encryption) keys() ([]apiserverv1.Key, error) {
	var config apiserverv1.EncryptionConfiguration
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return nil, fmt.Errorf("read encryption configuration: %w", err)
	}
	for _, resource := range config.Resources {
		for _, provider := range resource.Providers {
			if provider.AESCBC != nil && len(provider.AESCBC.Keys) > 0 {
				return provider.AESCBC.Keys, nil
			}
		}
	}
	return nil, errors.New("the encryption configuration has no keys")
}

// prepared adds a new key that all servers can read with before any server writes with it.
func (e encryption) prepared(now time.Time) (encryption, error) {
	keys, err := e.keys()
	if err != nil {
		return encryption{}, err
	}
	key, err := newEncryptionKey("aescbckey-" + now.Format(time.RFC3339))
	if err != nil {
		return encryption{}, err
	}
	return encryptionWith(append(keys, key), stagePrepare)
}

// rotated writes with the key that was last.
func (e encryption) rotated() (encryption, error) {
	keys, err := e.keys()
	if err != nil {
		return encryption{}, err
	}
	last := len(keys) - 1
	return encryptionWith(append([]apiserverv1.Key{keys[last]}, keys[:last]...), stageRotate)
}

// reencrypted drops the last key, which encrypts no Secret any more.
func (e encryption) reencrypted() (encryption, error) {
	keys, err := e.keys()
	if err != nil {
		return encryption{}, err
	}
	if len(keys) < 2 {
		return encryption{}, errors.New("the only key cannot be removed")
	}
	return encryptionWith(keys[:len(keys)-1], stageReencryptFinished)
}

// turns are the stages in which each command is allowed.
var turns = map[string][]string{
	"prepare":   {stageStart, stageReencryptFinished},
	"rotate":    {stagePrepare},
	"reencrypt": {stageRotate},
}

// refuse returns the reason why a command cannot run now: the stage is wrong, or the servers disagree. states are the
// states on the nodes with an API server, by node name. name is this server's node.
func (e encryption) refuse(command, name string, states map[string]string) error {
	if err := compareStates(states); err != nil {
		return err
	}
	own := encryption{State: states[name]}
	if !slices.Contains(turns[command], own.stage()) {
		return fmt.Errorf("incorrect stage: %s found on node %s", own.stage(), name)
	}
	if own.hash() != hashOf(e.Config) {
		return fmt.Errorf("invalid hash: %s found on node %s", own.hash(), name)
	}
	return nil
}

// compareStates fails unless all servers have the same configuration and stage.
func compareStates(states map[string]string) error {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(states)) {
		switch {
		case states[name] == "":
			return fmt.Errorf("node %s has no encryption hash", name)
		case first == "":
			first = name
		case states[name] != states[first]:
			return fmt.Errorf("hash does not match between %s and %s", first, name)
		}
	}
	return nil
}

// encryptionStatus is a server's status of the encryption of Secrets.
type encryptionStatus struct {
	Stage        string   `json:"stage,omitempty"`
	ActiveKey    string   `json:"activekey,omitempty"`
	InactiveKeys []string `json:"inactivekeys,omitempty"`
	Enable       *bool    `json:"enable,omitempty"`
	HashMatch    bool     `json:"hashmatch,omitempty"`
	HashError    string   `json:"hasherror,omitempty"`
}

// String returns the status as the real distributions print it.
func (s encryptionStatus) String() string {
	if s.Enable == nil {
		return "Encryption Status: Disabled, no configuration file found\n"
	}
	var text strings.Builder
	hashes := "All hashes match"
	if !s.HashMatch {
		hashes = s.HashError
	}
	fmt.Fprintf(&text, "Encryption Status: Enabled\nCurrent Rotation Stage: %s\nServer Encryption Hashes: %s\n\n",
		s.Stage, hashes)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Active\tKey Type\tName\n------\t--------\t----\n *\tAES-CBC\t%s\n", s.ActiveKey)
	for _, name := range s.InactiveKeys {
		fmt.Fprintf(table, "\tAES-CBC\t%s\n", name)
	}
	_ = table.Flush() // a strings.Builder accepts all writes
	return text.String()
}
