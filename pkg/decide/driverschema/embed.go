package driverschema

import (
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// Embedding is a DynamicSchema that lists the schemas of all drivers, so that one kind can have a field for each
// driver.
type Embedding struct {
	// Name is the name of the DynamicSchema.
	Name string
	// EmbedType is the kind that contains the schema.
	EmbedType string
	// Update is true when the fields may change after creation.
	Update bool
}

// The three embeddings. The embedding of node templates decides which drivers have kinds (BaseName).
var (
	NodeConfigs         = Embedding{Name: "nodeconfig", EmbedType: "node"}
	NodeTemplateConfigs = Embedding{Name: "nodetemplateconfig", EmbedType: "nodeTemplate", Update: true}
	CredentialConfigs   = Embedding{Name: "credentialconfig", EmbedType: "cloudCredential", Update: true}
)

// IsEmbedding reports whether a DynamicSchema of that name is one of the three.
func IsEmbedding(name string) bool {
	return name == NodeConfigs.Name || name == NodeTemplateConfigs.Name || name == CredentialConfigs.Name
}

// ConfigSchema names the DynamicSchema of a driver's configuration.
func ConfigSchema(driver string) string { return driver + "config" }

// CredentialSchema names the DynamicSchema of a driver's cloud credential.
func CredentialSchema(driver string) string { return driver + "credentialconfig" }

// ConfigField is the field of a driver in the embeddings of nodes and node templates.
func ConfigField(driver string) string { return driver + configSuffix }

// CredentialField is the field of a driver in the embedding of credentials.
func CredentialField(driver string) string { return driver + "credentialConfig" }

// With returns the spec of an embedding with or without a field for the given schema, and whether that is a change. It
// does not modify the given spec. A zero spec is an embedding that does not exist yet.
func (e Embedding) With(spec mgmtv3.DynamicSchemaSpec, field, schema string, present bool) (mgmtv3.DynamicSchemaSpec,
	bool) {
	out := *spec.DeepCopy()
	out.Embed, out.EmbedType = true, e.EmbedType
	changed := !spec.Embed || spec.EmbedType != e.EmbedType
	old, had := out.ResourceFields[field]
	if !present {
		delete(out.ResourceFields, field)
		return out, changed || had
	}
	want := mgmtv3.Field{Type: schema, Create: true, Nullable: true, Update: e.Update}
	if had && old.Type == want.Type && old.Create == want.Create && old.Nullable == want.Nullable &&
		old.Update == want.Update {
		return out, changed
	}
	if out.ResourceFields == nil {
		out.ResourceFields = map[string]mgmtv3.Field{}
	}
	out.ResourceFields[field] = want
	return out, true
}
