package driverschema

import (
	"fmt"
	"slices"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// Types of the DynamicSchema fields for flags.
const (
	fieldString   = "string"
	fieldPassword = "password"
	fieldBoolean  = "boolean"
	fieldList     = "array[string]"
)

// sshKeyFields hold a private key, whatever the annotations say.
var sshKeyFields = []string{"sshKeyContents", "sshKey", "privateKeyFile"}

// amazonRegion is the only credential field without a flag. User interfaces ask the cloud for its choices.
const (
	amazon       = "amazonec2"
	amazonRegion = "defaultRegion"
)

// Fields returns the fields of a driver's configuration for its flags. The error names the flag that cannot be a field.
// Drover then rejects the whole driver, because machines without that flag would be wrong.
func Fields(flags []Flag, metadata Metadata) (map[string]mgmtv3.Field, error) {
	renamed := metadata.fieldsOfDriver()
	fields := make(map[string]mgmtv3.Field, len(flags))
	for _, flag := range flags {
		name, err := FieldName(flag.Name)
		if err != nil {
			return nil, err
		}
		field, err := fieldOf(flag)
		if err != nil {
			return nil, err
		}
		if schemaField, ok := renamed[name]; ok {
			name = schemaField
			field.Description = "File contents for " + field.Description
		}
		if field.Type == fieldString && isSecret(name, metadata) {
			field.Type = fieldPassword
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("flag %q maps to field %q, but another flag already maps to it", flag.Name, name)
		}
		fields[name] = field
	}
	return fields, nil
}

func fieldOf(flag Flag) (mgmtv3.Field, error) {
	field := mgmtv3.Field{Create: true, Update: true, Description: flag.Usage}
	switch flag.Type {
	case FlagString, FlagInt:
		// Integers have always been strings in this API, and stored objects contain them as strings.
		field.Type = fieldString
		field.Default.StringValue = flag.Default
	case FlagBool:
		field.Type = fieldBoolean
	case FlagList:
		field.Type = fieldList
		field.Nullable = true
		field.Default.StringSliceValue = flag.List
	default:
		return mgmtv3.Field{}, fmt.Errorf("flag %q has the unknown type %q", flag.Name, flag.Type)
	}
	return field, nil
}

func isSecret(field string, metadata Metadata) bool {
	return slices.Contains(metadata.Private, field) || slices.Contains(metadata.Passwords, field) ||
		slices.Contains(sshKeyFields, field)
}

// CredentialFields returns the fields of a driver's cloud credential: copies of the configuration's fields that the
// annotations name. It skips names without a field, because annotations may be older or newer than the driver.
func CredentialFields(driver string, fields map[string]mgmtv3.Field, metadata Metadata) map[string]mgmtv3.Field {
	out := map[string]mgmtv3.Field{}
	for _, name := range slices.Concat(metadata.Public, metadata.Private) {
		field, ok := fields[name]
		if !ok {
			continue
		}
		field.Required = !slices.Contains(metadata.Optional, name)
		field.Default = mgmtv3.Values{}
		if value, ok := metadata.Defaults[name]; ok {
			field.Default.StringValue = value
		}
		out[name] = field
	}
	if driver == amazon && len(out) > 0 {
		out[amazonRegion] = mgmtv3.Field{Type: fieldString, Create: true, Update: true, DynamicField: true}
	}
	return out
}
