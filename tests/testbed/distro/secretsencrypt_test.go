package distro

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rotationDay = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

const secondKey = "aescbckey-2030-05-17T12:00:00Z"

// newKeysAt returns the encryption of a cluster at a stage of its rotation.
func newKeysAt(t *testing.T, stage string) encryption {
	t.Helper()
	e, err := newEncryption()
	for _, step := range []struct {
		stage string
		take  func(encryption) (encryption, error)
	}{
		{stagePrepare, func(e encryption) (encryption, error) { return e.prepared(rotationDay) }},
		{stageRotate, encryption.rotated},
		{stageReencryptFinished, encryption.reencrypted},
	} {
		if err != nil || e.stage() == stage {
			break
		}
		e, err = step.take(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEncryption_OrderOfKeys(t *testing.T) {
	tests := map[string][]string{
		stageStart:             {"aescbckey"},
		stagePrepare:           {"aescbckey", secondKey},
		stageRotate:            {secondKey, "aescbckey"},
		stageReencryptFinished: {secondKey},
	}
	for stage, want := range tests {
		t.Run(stage, func(t *testing.T) {
			e := newKeysAt(t, stage)
			keys, err := e.keys()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, key := range keys {
				got = append(got, key.Name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if e.stage() != stage || e.hash() != hashOf(e.Config) {
				t.Errorf("the state is %s", e.State)
			}
		})
	}
}

func TestEncryption_KeepsTheLastKey(t *testing.T) {
	if e, err := newKeysAt(t, stageReencryptFinished).reencrypted(); err == nil {
		t.Errorf("reencrypted to %s", e.Config)
	}
}

func TestEncryption_RefusesStagesOutOfOrder(t *testing.T) {
	allowed := map[string]map[string]bool{
		stageStart:             {"prepare": true},
		stagePrepare:           {"rotate": true},
		stageRotate:            {"reencrypt": true},
		stageReencryptFinished: {"prepare": true},
	}
	for stage, commands := range allowed {
		e := newKeysAt(t, stage)
		for _, command := range []string{"prepare", "rotate", "reencrypt", "unknown"} {
			err := e.refuse(command, "a", map[string]string{"a": e.State, "b": e.State})
			if commands[command] != (err == nil) {
				t.Errorf("%s at stage %s: %v", command, stage, err)
			}
			if err != nil && err.Error() != "incorrect stage: "+stage+" found on node a" {
				t.Errorf("%s at stage %s returns %q", command, stage, err)
			}
		}
	}
}

func TestEncryption_RefusesWhileServersDisagree(t *testing.T) {
	e := newKeysAt(t, stagePrepare)
	other := newKeysAt(t, stagePrepare)
	tests := map[string]struct {
		states map[string]string
		want   string
	}{
		"another server is behind": {map[string]string{"a": e.State, "b": newKeysAt(t, stageStart).State},
			"hash does not match between a and b"},
		"another server has other keys": {map[string]string{"a": other.State, "b": e.State},
			"hash does not match between a and b"},
		"another server has not reported": {map[string]string{"a": e.State, "b": ""}, "node b has no encryption hash"},
		"the file differs": {map[string]string{"a": other.State, "b": other.State}, "invalid hash: " +
			other.hash() + " found on node a"},
		"a running reencryption": {map[string]string{"a": stageReencryptActive + "-" + e.hash()},
			"incorrect stage: reencrypt_active found on node a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := e.refuse("rotate", "a", test.states); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestEncryptionStatus_Text(t *testing.T) {
	tests := map[string]struct {
		status encryptionStatus
		want   string
	}{
		"none": {encryptionStatus{}, "Encryption Status: Disabled, no configuration file found\n"},
		"two keys, and different servers": {
			encryptionStatus{Enable: new(true), Stage: stagePrepare, ActiveKey: "aescbckey",
				InactiveKeys: []string{secondKey}, HashError: "hash does not match between a and b"},
			`Encryption Status: Enabled
Current Rotation Stage: prepare
Server Encryption Hashes: hash does not match between a and b

Active  Key Type  Name
------  --------  ----
 *      AES-CBC   aescbckey
        AES-CBC   ` + secondKey + "\n",
		},
		"one key": {
			encryptionStatus{Enable: new(true), Stage: stageReencryptFinished, ActiveKey: secondKey, HashMatch: true},
			`Encryption Status: Enabled
Current Rotation Stage: reencrypt_finished
Server Encryption Hashes: All hashes match

Active  Key Type  Name
------  --------  ----
 *      AES-CBC   ` + secondKey + "\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.status.String()); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// The bootstrap data contain the encryption, for joining servers and for restores of a snapshot.
func TestBootstrap_HasTheEncryption(t *testing.T) {
	data := bootstrap{}
	if data.encrypts() {
		t.Error("without a configuration")
	}
	want, err := newEncryption()
	if err != nil {
		t.Fatal(err)
	}
	data.setEncryption(want)
	layout := NewLayout(RKE2, t.TempDir())
	for _, name := range bootstrapRequired {
		data[name] = []byte(name)
	}
	if err := data.writeChanging(layout); err != nil {
		t.Fatal(err)
	}
	got, err := readEncryption(layout)
	if err != nil || !data.encrypts() || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestConfig_Encrypts(t *testing.T) {
	tests := map[string]struct {
		runtime Runtime
		config  Config
		want    bool
	}{
		"RKE2":                 {RKE2, Config{}, true},
		"RKE2 with etcd alone": {RKE2, Config{DisableAPIServer: true}, false},
		"K3s":                  {K3s, Config{}, false},
		"K3s with the setting": {K3s, Config{SecretsEncryption: true}, true},
	}
	for name, test := range tests {
		if got := test.config.encrypts(test.runtime); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
