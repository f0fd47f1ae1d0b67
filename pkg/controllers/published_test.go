package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestPublishedSettings(t *testing.T) {
	t.Parallel()
	full := Settings{
		ServerURL: "https://drover.example.com", CACerts: "PEM", SystemDefaultRegistry: "r.example.com",
		SystemDefaultRegistryPullSecrets: []string{"a", "b"}, SystemAgentInstallerImage: "i-",
		MachineProvisionImage:           "m",
		MachineProvisionImagePullPolicy: "Never", BootstrapTokenTTL: time.Minute, RegistrationTokenTTL: -1,
		RegistrationTokenGracePeriod: time.Hour, RegistrationCommands: "status",
		DeleteMachineOnFailureAfter: 5 * time.Minute,
	}
	other := Settings{SystemDefaultRegistry: "other.example.com"}
	mine, theirs := *full.ConfigMap("mine"), *other.ConfigMap("theirs")
	old, odd := *full.ConfigMap("mine"), *full.ConfigMap("mine")
	usual, half := full, full
	for key, value := range usual.times() {
		delete(old.Data, key)
		*value = 0
	}
	usual.BootstrapTokenTTL = DefaultBootstrapTokenTTL
	odd.Data[keyMachineTTL], half.BootstrapTokenTTL = "soon", DefaultBootstrapTokenTTL
	for name, tc := range map[string]struct {
		published []corev1.ConfigMap
		instance  string
		want      Settings
		wantKnown bool
		assumed   []string
	}{
		"nothing is published": {instance: "mine"},
		"the server of the cluster": {published: []corev1.ConfigMap{theirs, mine}, instance: "mine",
			want: full, wantKnown: true},
		"another server": {published: []corev1.ConfigMap{theirs}, instance: "mine"},
		"a cluster without a mark": {published: []corev1.ConfigMap{theirs}, want: other,
			wantKnown: true},
		"a cluster without a mark, and two servers": {published: []corev1.ConfigMap{theirs, mine}},
		"a server without settings": {published: []corev1.ConfigMap{*Settings{}.ConfigMap("mine")},
			instance: "mine", wantKnown: true},
		"a server of an earlier release": {
			published: []corev1.ConfigMap{old, theirs}, instance: "mine", want: usual, wantKnown: true,
			assumed: []string{keyMachineTTL, keyFailedMachines, keyTokenGrace, keyTokenTTL},
		},
		"an invalid value": {published: []corev1.ConfigMap{odd}, instance: "mine", want: half,
			wantKnown: true, assumed: []string{keyMachineTTL}},
		"an instance with an odd name": {published: []corev1.ConfigMap{*other.ConfigMap("My Drover/1")},
			instance: "My Drover/1", want: other, wantKnown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, known := PublishedSettings(tc.published, tc.instance)
			if diff := cmp.Diff(tc.want, got); diff != "" || known != tc.wantKnown {
				t.Errorf("known %v, settings (-want +got):\n%s", known, diff)
			}
			if diff := cmp.Diff(tc.assumed, AssumedSettings(tc.published, tc.instance)); diff != "" {
				t.Errorf("assumed (-want +got):\n%s", diff)
			}
		})
	}
	if mine.Name == theirs.Name {
		t.Errorf("two servers publish as %s", mine.Name)
	}
}

// Published settings hold no secrets, because every user who can read clusters can read them.
func TestPublishedSettings_HoldNoSecrets(t *testing.T) {
	t.Parallel()
	s := Settings{ServerURL: "https://user:PASSWORD@drover.example.com",
		ProxyEnv: map[string]string{"HTTPS_PROXY": "http://user:PASSWORD@proxy"}}
	published := s.ConfigMap("mine")
	for key, value := range published.Data {
		if strings.Contains(value, "PASSWORD") {
			t.Errorf("%s contains a secret: %s", key, value)
		}
	}
	if got := published.Data["server-url"]; got != "https://drover.example.com" {
		t.Errorf("server-url is %q", got)
	}
	broken := Settings{ServerURL: "https://user:PASSWORD@drover.example.com:port"}
	if got := broken.ConfigMap("mine").Data["server-url"]; got != "" {
		t.Errorf("server-url is %q", got)
	}
}
