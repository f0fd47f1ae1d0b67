package controllers

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/rival"
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
	keyMachineTTL     = "bootstrap-token-ttl"
	keyTokenTTL       = "registration-token-ttl"
	keyTokenGrace     = "registration-token-grace-period"
	keyFailedMachines = "delete-machine-on-failure-after"
)

// SettingsName is the name of what the server of an instance has published.
func SettingsName(instanceID string) string {
	return settingsName(rival.Digest(instanceID))
}

func settingsName(digest string) string { return "drover-settings-" + digest[:8] }

// InstanceWithDigest is the identifier of an instance of which the digest is known (rival.Digest), as its server has published it; empty when that did not,
// or it cannot be read.
func InstanceWithDigest(ctx context.Context, client kubernetes.Interface, digest string) string {
	published, err := client.CoreV1().ConfigMaps(SettingsNamespace).Get(ctx, settingsName(digest), metav1.GetOptions{})
	if err != nil {
		return ""
	}
	if instance := published.Annotations[rkev1.InstanceAnnotation]; rival.Digest(instance) == digest {
		return instance
	}
	return ""
}

// ConfigMap is how a server publishes its settings, for programs that say what it would do. It holds no secrets: those are named, and
// proxy variables, which may hold passwords, are left out. ClusterAgentImage is to be empty where clusters get no agent.
func (s Settings) ConfigMap(instanceID string) *corev1.ConfigMap {
	published := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: SettingsNamespace, Name: SettingsName(instanceID),
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
	for key, value := range s.times() {
		published.Data[key] = value.String() // zero, too: a server that does not say is one that has not published it yet
	}
	return published
}

// times are the settings that are durations.
func (s *Settings) times() map[string]*time.Duration {
	return map[string]*time.Duration{
		keyMachineTTL: &s.BootstrapTokenTTL, keyTokenTTL: &s.RegistrationTokenTTL, keyTokenGrace: &s.RegistrationTokenGracePeriod,
		keyFailedMachines: &s.DeleteMachineOnFailureAfter,
	}
}

// SettingsReaders lets everybody who has proved who they are get what the server of an instance has published, and nothing else in its namespace:
// drover kubeconfig asks there for the address, as users who have no rights but on their Clusters.
func SettingsReaders(instanceID string) (*rbacv1.Role, *rbacv1.RoleBinding) {
	name := SettingsName(instanceID)
	meta := metav1.ObjectMeta{
		Namespace: SettingsNamespace, Name: name, Labels: map[string]string{SettingsLabel: "true"}, Annotations: map[string]string{rkev1.InstanceAnnotation: instanceID},
	}
	role := &rbacv1.Role{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get"}}},
	}
	return role, &rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}},
	}
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

// AssumedSettings are the flags of the server of an instance whose values it has not published, as a server of a release before did not, or of which
// nobody understands what it has published. PublishedSettings has what the flags are without being set.
func AssumedSettings(published []corev1.ConfigMap, instanceID string) []string {
	var out []string
	for i := range published {
		if published[i].Annotations[rkev1.InstanceAnnotation] != instanceID {
			continue
		}
		for key := range (&Settings{}).times() {
			if _, err := time.ParseDuration(published[i].Data[key]); err != nil {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
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
	s.BootstrapTokenTTL = DefaultBootstrapTokenTTL // of the others zero is the default
	for key, value := range s.times() {
		if found, err := time.ParseDuration(data[key]); err == nil {
			*value = found
		}
	}
	if names := data[keyPullSecrets]; names != "" {
		s.SystemDefaultRegistryPullSecrets = strings.Split(names, ",")
	}
	return s
}
