package driverschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// Metadata is what the annotations of a NodeDriver say about its flags. All names are names of fields.
type Metadata struct {
	// Public and Private fields make up the cloud credential; the private ones are hidden.
	Public, Private []string
	// Passwords are hidden and no part of the credential.
	Passwords []string
	// Optional are the fields of the credential that may be absent.
	Optional []string
	// Defaults are values of fields of the credential.
	Defaults map[string]string
	// Aliases are the fields that hold the content of a file, with the field whose flag takes the path of one.
	Aliases map[string]string
}

// ParseMetadata reads the annotations of a NodeDriver. Entries that are malformed are an error that names the annotation
// and the entry, because ignoring them would silently show a password or lose a file.
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

// ParseAliases reads the one annotation that provisioning needs too: schema field to driver field.
func ParseAliases(annotations map[string]string) (map[string]string, error) {
	return pairs(annotations, mgmtv3.FileToFieldAliasesAnnotation)
}

// UIHints is the value of the annotation that tells user interfaces which fields hold files: many lines each. Empty when
// there are none.
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
			return nil, fmt.Errorf("metadata.annotations[%s]: entry %q is not of the form NAME:VALUE", annotation, entry)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// fieldsOfDriver turns the aliases round: field of the driver to field of the schema.
func (m Metadata) fieldsOfDriver() map[string]string {
	out := make(map[string]string, len(m.Aliases))
	for _, schemaField := range slices.Sorted(maps.Keys(m.Aliases)) {
		out[m.Aliases[schemaField]] = schemaField
	}
	return out
}
