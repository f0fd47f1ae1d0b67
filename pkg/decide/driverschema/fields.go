package driverschema

import (
	"fmt"
	"slices"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// Types of fields of a DynamicSchema that flags become.
const (
	fieldString   = "string"
	fieldPassword = "password"
	fieldBoolean  = "boolean"
	fieldList     = "array[string]"
)

// sshKeyFields hold a private key whatever the annotations say.
var sshKeyFields = []string{"sshKeyContents", "sshKey", "privateKeyFile"}

// amazonRegion is the one credential field that is no flag: user interfaces ask the cloud for choices in it.
const (
	amazon       = "amazonec2"
	amazonRegion = "defaultRegion"
)

// Fields are the fields of a driver's configuration, from its flags. An error names the flag that cannot be a field: then
// the driver as a whole is refused, because a machine without that flag would be made wrongly.
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
			return nil, fmt.Errorf("flag %q gives the field %q, which another flag gives too", flag.Name, name)
		}
		fields[name] = field
	}
	return fields, nil
}

func fieldOf(flag Flag) (mgmtv3.Field, error) {
	field := mgmtv3.Field{Create: true, Update: true, Description: flag.Usage}
	switch flag.Type {
	case FlagString, FlagInt:
		// Whole numbers have always been strings in this API: stored objects hold them so.
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
	return slices.Contains(metadata.Private, field) || slices.Contains(metadata.Passwords, field) || slices.Contains(sshKeyFields, field)
}

// CredentialFields are the fields of a cloud credential of a driver: copies of those fields of its configuration that the
// annotations name. A name that is no field is skipped: annotations may be older or newer than the driver.
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
