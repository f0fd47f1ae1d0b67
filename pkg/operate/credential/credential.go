package credential

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/edit"
)

const (
	// NamePrefix begins the names of credentials that a user does not name.
	NamePrefix = "cc-"
	// DisplayNameAnnotation is the name that a user gave a credential.
	DisplayNameAnnotation = "field.cattle.io/name"
	// DriverAnnotation names the driver.
	DriverAnnotation = "provisioning.cattle.io/driver"
	// ForS3 is the driver of credentials for snapshots in S3. It is no node driver.
	ForS3 = "s3"
	// infix follows the name of the driver in the keys of the Secret.
	infix = "credentialConfig-"
	// longestName is the length of the longest display name.
	longestName = 250
	typeBoolean = "boolean"
	typeString  = "string"
	typeSecret  = "password"
)

// Request describes a new credential.
type Request struct {
	// Name is the name of the Secret, empty for a generated one.
	Name        string            `json:"name,omitempty"`
	DisplayName string            `json:"displayName"`
	Driver      string            `json:"driver"`
	Values      map[string]string `json:"values"`
}

// Problems lists what is wrong with a request. fields is the driver's schema, nil if it is unknown.
func (r Request) Problems(fields map[string]mgmtv3.Field) []edit.Problem {
	var out []edit.Problem
	add := func(field, message string) { out = append(out, edit.Problem{Field: field, Message: message}) }
	if r.Name != "" && len(validation.IsDNS1123Subdomain(r.Name)) > 0 {
		add("name", "the name must consist of lower-case letters, digits, dots and dashes, and begin and end with a "+
			"letter or digit")
	}
	switch {
	case strings.TrimSpace(r.DisplayName) == "":
		add("displayName", "a name is missing")
	case len(r.DisplayName) > longestName || strings.ContainsFunc(r.DisplayName, unicode.IsControl):
		add("displayName", fmt.Sprintf("the name must be one line of at most %d bytes", longestName))
	}
	if err := driverschema.ValidName(r.Driver); err != nil {
		add("driver", "the name of a driver must consist of letters and digits, and begin with a letter")
	}
	return append(out, Check(fields, r.Values)...)
}

// Secret is the Secret of a request.
func (r Request) Secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
			DisplayNameAnnotation: strings.TrimSpace(r.DisplayName), DriverAnnotation: r.Driver}},
		Type: provv1.SecretTypeCloudCredential, Data: data(r.Driver, r.Values),
	}
}

// Replaced is a Secret with other values. It keeps all other fields.
func Replaced(live *corev1.Secret, driver string, values map[string]string) *corev1.Secret {
	out := live.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	out.Data, out.StringData = data(driver, values), nil
	for name, value := range out.Annotations {
		if strings.Contains(value, infix) { // a copy of the former values, as kubectl apply makes it
			delete(out.Annotations, name)
		}
	}
	return out
}

// data omits empty values, because a driver may take an empty variable for a value.
func data(driver string, values map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for name, value := range values {
		if value != "" {
			out[driver+infix+name] = []byte(value)
		}
	}
	return out
}

// DriverOf returns the driver of a credential, empty if it is unknown.
func DriverOf(secret *corev1.Secret) string {
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if driver, _, ok := strings.Cut(key, infix); ok {
			return driver
		}
	}
	return secret.Annotations[DriverAnnotation]
}

// S3Fields are the values of a credential for snapshots in S3.
func S3Fields() map[string]mgmtv3.Field {
	return map[string]mgmtv3.Field{
		"accessKey": {Type: typeString, Required: true}, "secretKey": {Type: typeSecret, Required: true},
		"defaultRegion": {Type: typeString}, "defaultEndpoint": {Type: typeString},
		"defaultEndpointCA": {Type: typeString}, "defaultSkipSSLVerify": {Type: typeBoolean},
		"defaultBucket": {Type: typeString}, "defaultFolder": {Type: typeString},
	}
}

// LiveFields are the fields of an existing credential, for a driver without a known schema. Each of them must be
// replaced.
func LiveFields(live *corev1.Secret) map[string]mgmtv3.Field {
	out := map[string]mgmtv3.Field{}
	for key := range live.Data {
		out[cloudcredential.FieldOf(key)] = mgmtv3.Field{Required: true}
	}
	return out
}

// fieldName matches valid names. Of a key of the Secret, only the part behind the last dash counts.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_.]{1,100}$`)

// Check lists what is wrong with values. Its messages never contain a value. fields is the driver's schema, nil if it
// is unknown.
func Check(fields map[string]mgmtv3.Field, values map[string]string) []edit.Problem {
	var out []edit.Problem
	isEmpty := true
	for _, name := range slices.Sorted(maps.Keys(values)) {
		isEmpty = isEmpty && values[name] == ""
		if wrong := wrongValue(fields, name, values[name]); wrong != "" {
			out = append(out, edit.Problem{Field: "values." + name, Message: wrong})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name].Required && values[name] == "" {
			out = append(out, edit.Problem{Field: "values." + name, Message: "a value is missing"})
		}
	}
	if isEmpty && len(out) == 0 {
		out = append(out, edit.Problem{Field: "values", Message: "the credential has no value"})
	}
	return out
}

// wrongValue says what is wrong with a value or its name.
func wrongValue(fields map[string]mgmtv3.Field, name, value string) string {
	field, isKnown := fields[name]
	switch {
	case !fieldName.MatchString(name):
		return "the name of a value must consist of letters and digits"
	case fields != nil && !isKnown:
		return "the driver has no such value; its values are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	case value == "":
		return ""
	}
	return misfit(field, value)
}

// misfit says why a value does not fit its field, without the value.
func misfit(field mgmtv3.Field, value string) string {
	switch {
	case field.Type == typeBoolean && value != "true" && value != "false":
		return "the value must be true or false"
	case len(field.Options) > 0 && !slices.Contains(field.Options, value):
		return "the value must be one of " + strings.Join(field.Options, ", ")
	case strings.ContainsRune(value, 0):
		return "the value must not contain a NUL character"
	}
	return ""
}
