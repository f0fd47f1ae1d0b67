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

// SettingsNamespace is the namespace of these ConfigMaps.
const SettingsNamespace = SystemNamespace

// Keys of published settings. They are the names of the flags.
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
	keyCommands       = "registration-commands"
	keyFailedMachines = "delete-machine-on-failure-after"
)

// SettingsName returns the name of the ConfigMap that the server of an instance publishes.
func SettingsName(instanceID string) string {
	return settingsName(rival.Digest(instanceID))
}

func settingsName(digest string) string { return "drover-settings-" + digest[:8] }

// InstanceWithDigest returns the identifier of the instance whose digest (rival.Digest) is known. It reads the
// ConfigMap that the instance's server published. It returns "" if that is absent or unreadable.
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

// ConfigMap returns the ConfigMap in which a server publishes its settings. Programs read it to predict what the server
// does. It holds no secrets: it only names Secrets, and omits proxy variables because they may hold passwords. Set
// ClusterAgentImage to "" if clusters get no agent.
func (s Settings) ConfigMap(instanceID string) *corev1.ConfigMap {
	published := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: SettingsNamespace, Name: SettingsName(instanceID),
			Labels:      map[string]string{SettingsLabel: "true"},
			Annotations: map[string]string{rkev1.InstanceAnnotation: instanceID},
		},
		Data: map[string]string{},
	}
	for key, value := range map[string]string{
		keyServerURL: withoutUser(s.ServerURL), keyCACerts: s.CACerts, keyRegistry: s.SystemDefaultRegistry,
		keyPullSecrets:    strings.Join(s.SystemDefaultRegistryPullSecrets, ","),
		keyInstallerImage: s.SystemAgentInstallerImage,
		keyMachineImage:   s.MachineProvisionImage, keyMachinePull: s.MachineProvisionImagePullPolicy,
		keyAgentImage: s.ClusterAgentImage, keyCommands: s.RegistrationCommands,
	} {
		if value != "" {
			published.Data[key] = value
		}
	}
	for key, value := range s.times() {
		// Publish zero too: a missing key means that the server's release does not publish it.
		published.Data[key] = value.String()
	}
	return published
}

// times returns the settings that are durations.
func (s *Settings) times() map[string]*time.Duration {
	return map[string]*time.Duration{
		keyMachineTTL: &s.BootstrapTokenTTL, keyTokenTTL: &s.RegistrationTokenTTL,
		keyTokenGrace:     &s.RegistrationTokenGracePeriod,
		keyFailedMachines: &s.DeleteMachineOnFailureAfter,
	}
}

// SettingsReaders returns a Role and RoleBinding that let every authenticated user get the published settings of an
// instance. They allow nothing else in the namespace. The command drover kubeconfig reads the server's address there,
// for users who have rights on their Clusters only.
func SettingsReaders(instanceID string) (*rbacv1.Role, *rbacv1.RoleBinding) {
	name := SettingsName(instanceID)
	meta := metav1.ObjectMeta{
		Namespace: SettingsNamespace, Name: name, Labels: map[string]string{SettingsLabel: "true"},
		Annotations: map[string]string{rkev1.InstanceAnnotation: instanceID},
	}
	role := &rbacv1.Role{
		ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{name}, Verbs: []string{"get"}}},
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

// PublishedSettings returns the published settings of an instance, and false if they are absent. An empty instanceID,
// for a Cluster without an instance, selects the only published settings.
func PublishedSettings(published []corev1.ConfigMap, instanceID string) (Settings, bool) {
	for i := range published {
		instance := published[i].Annotations[rkev1.InstanceAnnotation]
		if instance == instanceID || instanceID == "" && len(published) == 1 {
			return settingsFrom(published[i].Data), true
		}
	}
	return Settings{}, false
}

// AssumedSettings returns the flags whose value the server of an instance has not published, or published unreadably.
// Servers of earlier releases publish fewer. PublishedSettings returns the defaults for these flags.
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

// PublishedInstances returns the identifiers of the instances that have published their settings.
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
		RegistrationCommands: data[keyCommands],
	}
	s.BootstrapTokenTTL = DefaultBootstrapTokenTTL // the default of the other settings is zero
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
