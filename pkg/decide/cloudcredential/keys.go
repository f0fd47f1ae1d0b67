package cloudcredential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// Infix follows the name of the driver in the keys of the Secret.
	Infix = "credentialConfig-"
	// ForS3 is the driver of credentials for snapshots in S3. It is no node driver.
	ForS3 = "s3"
)

// Schema is what the driver of a credential understands.
type Schema struct {
	// Credential are the fields of the credential, Config those of the machine config. A driver reads all its flags
	// from variables, so a credential may have fields of both.
	Credential, Config map[string]mgmtv3.Field
}

// S3Schema describes credentials for snapshots in S3.
func S3Schema() *Schema {
	text := mgmtv3.Field{Type: "string"}
	return &Schema{Credential: map[string]mgmtv3.Field{
		"accessKey": {Type: "string", Required: true}, "secretKey": {Type: "password", Required: true},
		"defaultRegion": text, "defaultEndpoint": text, "defaultEndpointCA": text,
		"defaultSkipSSLVerify": {Type: "boolean"}, "defaultBucket": text, "defaultFolder": text,
	}}
}

// Is reports whether a Secret is a cloud credential: by its type, or by a key.
func Is(secret *corev1.Secret) bool {
	return secret.Type == provv1.SecretTypeCloudCredential || DriverOf(secret) != ""
}

// DriverOf returns the driver that the keys of a credential name, "" if they name none.
func DriverOf(secret *corev1.Secret) string {
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if driver, _, ok := strings.Cut(key, Infix); ok {
			return driver
		}
	}
	return ""
}

// FieldOf returns the field of a key, which follows the last dash. (docs/wire/secrets.md#cloud-credentials.)
func FieldOf(key string) string { return key[strings.LastIndex(key, "-")+1:] }

// Problem is a mistake in the keys of a credential. It contains no value.
type Problem struct {
	// Key is the key of the Secret.
	Key string
	// Missing means that the Secret has no such key, or an empty value. Otherwise the driver has no such field.
	Missing bool
	// Message says what would be right.
	Message string
}

// String returns the problem as a sentence.
func (p Problem) String() string {
	if p.Missing {
		return fmt.Sprintf("key %s is missing: %s", p.Key, p.Message)
	}
	return fmt.Sprintf("key %s is unknown: %s", p.Key, p.Message)
}

// Error returns the problem as an error of the API.
func (p Problem) Error() *field.Error {
	at := field.NewPath("data").Key(p.Key)
	if p.Missing {
		return field.Required(at, p.Message)
	}
	return field.Invalid(at, field.OmitValueType{}, p.Message)
}

// SolvedBy reports whether the machine config has the missing value. The driver reads it from there then.
func (p Problem) SolvedBy(config map[string]any) bool {
	value, _ := config[FieldOf(p.Key)].(string)
	return p.Missing && value != ""
}

// Problems compares the keys of a credential with the schema of a driver. There are none if the schema is unknown, or
// if the NodeDriver names no fields of a credential.
func Problems(data map[string][]byte, driver string, schema *Schema) []Problem {
	if schema == nil || len(schema.Credential) == 0 {
		return nil
	}
	prefix := driver + Infix
	has, other := map[string]bool{}, false
	var out []Problem
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := FieldOf(key)
		_, inCredential := schema.Credential[name]
		_, inConfig := schema.Config[name]
		has[name] = has[name] || len(data[key]) > 0
		other = other || inConfig && !inCredential
		if !inCredential && !inConfig {
			out = append(out, Problem{Key: key, Message: instead(name, prefix, schema)})
		}
	}
	if other { // with a field of the machine config, the driver may authenticate in another way
		return out
	}
	return append(out, missing(has, driver, schema)...)
}

// missing names the required fields that a credential does not have. A field with a default is not missing: user
// interfaces fill it in, and the driver or the machine config has the same default.
func missing(has map[string]bool, driver string, schema *Schema) []Problem {
	if driver == ForS3 && !has["accessKey"] && !has["secretKey"] { // machines may have a role in the cloud
		return nil
	}
	var out []Problem
	for _, name := range slices.Sorted(maps.Keys(schema.Credential)) {
		required := schema.Credential[name].Required && schema.Credential[name].Default.StringValue == "" &&
			schema.Config[name].Default.StringValue == ""
		if required && !has[name] {
			out = append(out, Problem{Key: driver + Infix + name, Missing: true,
				Message: fmt.Sprintf("driver %s requires it", driver)})
		}
	}
	return out
}

// instead says which key would be right.
func instead(name, prefix string, schema *Schema) string {
	driver := strings.TrimSuffix(prefix, Infix)
	known := slices.Concat(slices.Collect(maps.Keys(schema.Credential)), slices.Collect(maps.Keys(schema.Config)))
	if meant := naming.Nearest(name, known); meant != "" {
		return fmt.Sprintf("driver %s has no field %s; did you mean %s%s?", driver, name, prefix, meant)
	}
	var keys []string
	for _, field := range slices.Sorted(maps.Keys(schema.Credential)) {
		keys = append(keys, prefix+field)
	}
	return fmt.Sprintf("driver %s has no field %s; its keys are %s", driver, name, strings.Join(keys, ", "))
}
