package driverschema

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// seed is a driver that every new installation has.
type seed struct {
	name string
	// active is the initial value. Later choices of the administrator are kept.
	active, addCloudCredential bool

	public, private, passwords, optional, defaults, aliases string
}

// seeds are the drivers in rancher-machine, with the content of their annotations
// (docs/wire/machines.md#seeded-drivers: the field lists make user interfaces show a credential form).
var seeds = []seed{
	{
		name: "amazonec2", active: true, addCloudCredential: true, public: "accessKey", private: "secretKey",
		aliases: "sshKeyContents:sshKeypath,userdata:userdata",
	},
	{
		name: "azure", active: true, addCloudCredential: true, public: "clientId,subscriptionId,tenantId,environment",
		private: "clientSecret", optional: "tenantId", aliases: "customData:customData",
	},
	{name: "digitalocean", active: true, private: "accessToken",
		aliases: "sshKeyContents:sshKeyPath,userdata:userdata"},
	{name: "exoscale", public: "apiKey", private: "apiSecretKey", aliases: "sshKey:sshKey,userdata:userdata"},
	{name: "google", addCloudCredential: true, private: "authEncodedJson",
		aliases: "authEncodedJson:authEncodedJson,userdata:userdata"},
	{name: "openstack", private: "password",
		aliases: "cacert:cacert,privateKeyFile:privateKeyFile,userDataFile:userDataFile"},
	{name: "rackspace", private: "apiKey"},
	{name: "softlayer", private: "apiKey"},
	{
		name: "vmwarevsphere", active: true, public: "username,vcenter,vcenterPort", private: "password",
		defaults: "vcenterPort:443",
		aliases:  "cloudConfig:cloud-config",
	},
}

// Seeds returns the NodeDrivers of a new installation.
func Seeds() []*mgmtv3.NodeDriver {
	out := make([]*mgmtv3.NodeDriver, 0, len(seeds))
	for _, s := range seeds {
		out = append(out, s.driver())
	}
	return out
}

// driver returns the NodeDriver of a seed.
func (s seed) driver() *mgmtv3.NodeDriver {
	annotations := map[string]string{}
	for key, value := range map[string]string{
		mgmtv3.PublicCredentialFieldsAnnotation:   s.public,
		mgmtv3.PrivateCredentialFieldsAnnotation:  s.private,
		mgmtv3.PasswordFieldsAnnotation:           s.passwords,
		mgmtv3.OptionalCredentialFieldsAnnotation: s.optional,
		mgmtv3.DefaultsAnnotation:                 s.defaults,
		mgmtv3.FileToFieldAliasesAnnotation:       s.aliases,
	} {
		if value != "" {
			annotations[key] = value
		}
	}
	return &mgmtv3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Annotations: annotations},
		Spec: mgmtv3.NodeDriverSpec{
			Active: s.active, AddCloudCredential: s.addCloudCredential, Builtin: true, DisplayName: s.name,
			URL: LocalURL,
		},
	}
}

// Reseed returns an existing NodeDriver with the values that the seed sets at every start, and whether that is a
// change. It keeps the administrator's choice whether the driver is active.
func Reseed(existing, seed *mgmtv3.NodeDriver) (*mgmtv3.NodeDriver, bool) {
	out := existing.DeepCopy()
	active := out.Spec.Active
	out.Spec.Builtin, out.Spec.AddCloudCredential = seed.Spec.Builtin, seed.Spec.AddCloudCredential
	out.Spec.URL, out.Spec.Checksum, out.Spec.DisplayName = seed.Spec.URL, seed.Spec.Checksum, seed.Spec.DisplayName
	out.Spec.Active = active
	changed := existing.Spec.Builtin != out.Spec.Builtin ||
		existing.Spec.AddCloudCredential != out.Spec.AddCloudCredential ||
		existing.Spec.URL != out.Spec.URL || existing.Spec.Checksum != out.Spec.Checksum ||
		existing.Spec.DisplayName != out.Spec.DisplayName
	for key, value := range seed.Annotations {
		if existing.Annotations[key] != value {
			changed = true
		}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	maps.Copy(out.Annotations, seed.Annotations)
	return out, changed
}

// IsLocal reports whether a driver is compiled into rancher-machine.
func IsLocal(url string) bool { return strings.HasPrefix(url, LocalURL) }
