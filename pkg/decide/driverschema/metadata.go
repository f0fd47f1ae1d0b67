package driverschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// Metadata is the content of a NodeDriver's annotations about its flags. All names are field names.
type Metadata struct {
	// Public and Private fields make up the cloud credential; the private ones are hidden.
	Public, Private []string
	// Passwords are hidden fields outside the credential.
	Passwords []string
	// Optional are the credential's optional fields.
	Optional []string
	// Defaults are default values of the credential's fields.
	Defaults map[string]string
	// Aliases maps a field with the content of a file to the field whose flag takes the file's path.
	Aliases map[string]string
}

// ParseMetadata reads the annotations of a NodeDriver. A malformed entry is an error that names the annotation and the
// entry. Ignoring it would silently show a password or lose a file.
func ParseMetadata(annotations map[string]string) (Metadata, error) {
	defaults, err := pairs(annotations, mgmtv3.DefaultsAnnotation)
	if err != nil {
		return Metadata{}, err
	}
	aliases, err := ParseAliases(annotations)
	if err != nil {
		return Metadata{}, err
	}
	return Metadata{
		Public:    list(annotations[mgmtv3.PublicCredentialFieldsAnnotation]),
		Private:   list(annotations[mgmtv3.PrivateCredentialFieldsAnnotation]),
		Passwords: list(annotations[mgmtv3.PasswordFieldsAnnotation]),
		Optional:  list(annotations[mgmtv3.OptionalCredentialFieldsAnnotation]),
		Defaults:  defaults,
		Aliases:   aliases,
	}, nil
}

// ParseAliases reads the annotation that provisioning needs too. The result maps schema fields to driver fields.
func ParseAliases(annotations map[string]string) (map[string]string, error) {
	return pairs(annotations, mgmtv3.FileToFieldAliasesAnnotation)
}

// UIHints is the value of the annotation that lists the fields with files for user interfaces. They need an input of
// several lines. Empty when there are none.
func UIHints(aliases map[string]string) string {
	if len(aliases) == 0 {
		return ""
	}
	hints := make(map[string]map[string]string, len(aliases))
	for field := range aliases {
		hints[field] = map[string]string{"type": "multiline"}
	}
	encoded, err := json.Marshal(hints)
	if err != nil {
		return "" // maps of strings always encode
	}
	return string(encoded)
}

func list(value string) []string {
	var out []string
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	return out
}

func pairs(annotations map[string]string, annotation string) (map[string]string, error) {
	var out map[string]string
	for _, entry := range list(annotations[annotation]) {
		key, value, ok := strings.Cut(entry, ":")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("metadata.annotations[%s]: entry %q must have the form NAME:VALUE",
				annotation, entry)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// fieldsOfDriver inverts the aliases: it maps driver fields to schema fields.
func (m Metadata) fieldsOfDriver() map[string]string {
	out := make(map[string]string, len(m.Aliases))
	for _, schemaField := range slices.Sorted(maps.Keys(m.Aliases)) {
		out[m.Aliases[schemaField]] = schemaField
	}
	return out
}
