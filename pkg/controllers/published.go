package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// SettingsLabel marks the ConfigMaps in which servers publish their settings.
const SettingsLabel = "drover.io/settings"

// SettingsNamespace is where they are.
const SettingsNamespace = SystemNamespace

// Keys of published settings, named like the flags.
const (
	keyServerURL      = "server-url"
	keyCACerts        = "cacerts"
	keyRegistry       = "system-default-registry"
	keyPullSecrets    = "system-default-registry-pull-secrets"
	keyInstallerImage = "system-agent-installer-image"
	keyMachineImage   = "machine-provision-image"
	keyMachinePull    = "machine-provision-image-pull-policy"
	keyAgentImage     = "cluster-agent-image"
)

// ConfigMap is how a server publishes its settings, for programs that say what it would do. It holds no secrets: those are named, and
// proxy variables, which may hold passwords, are left out. ClusterAgentImage is to be empty where clusters get no agent.
func (s Settings) ConfigMap(instanceID string) *corev1.ConfigMap {
	sum := sha256.Sum256([]byte(instanceID))
	published := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: SettingsNamespace, Name: "drover-settings-" + hex.EncodeToString(sum[:4]),
			Labels: map[string]string{SettingsLabel: "true"}, Annotations: map[string]string{rkev1.InstanceAnnotation: instanceID},
		},
		Data: map[string]string{},
	}
	for key, value := range map[string]string{
		keyServerURL: withoutUser(s.ServerURL), keyCACerts: s.CACerts, keyRegistry: s.SystemDefaultRegistry,
		keyPullSecrets: strings.Join(s.SystemDefaultRegistryPullSecrets, ","), keyInstallerImage: s.SystemAgentInstallerImage,
		keyMachineImage: s.MachineProvisionImage, keyMachinePull: s.MachineProvisionImagePullPolicy,
		keyAgentImage: s.ClusterAgentImage,
	} {
		if value != "" {
			published.Data[key] = value
		}
	}
	return published
}

func withoutUser(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	parsed.User = nil
	return parsed.String()
}

// PublishedSettings are the settings that the server of an instance has published, out of those that there are. The server of a cluster
// that is nobody's yet is any, if there is only one.
func PublishedSettings(published []corev1.ConfigMap, instanceID string) (Settings, bool) {
	for i := range published {
		instance := published[i].Annotations[rkev1.InstanceAnnotation]
		if instance == instanceID || instanceID == "" && len(published) == 1 {
			return settingsFrom(published[i].Data), true
		}
	}
	return Settings{}, false
}

// PublishedInstances are the identifiers of the instances that have published their settings.
func PublishedInstances(published []corev1.ConfigMap) []string {
	var out []string
	for i := range published {
		if instance := published[i].Annotations[rkev1.InstanceAnnotation]; instance != "" {
			out = append(out, instance)
		}
	}
	slices.Sort(out)
	return out
}

func settingsFrom(data map[string]string) Settings {
	s := Settings{
		ServerURL: data[keyServerURL], CACerts: data[keyCACerts], SystemDefaultRegistry: data[keyRegistry],
		SystemAgentInstallerImage: data[keyInstallerImage], MachineProvisionImage: data[keyMachineImage],
		MachineProvisionImagePullPolicy: data[keyMachinePull], ClusterAgentImage: data[keyAgentImage],
	}
	if names := data[keyPullSecrets]; names != "" {
		s.SystemDefaultRegistryPullSecrets = strings.Split(names, ",")
	}
	return s
}
