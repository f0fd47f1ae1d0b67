package credentialjob

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/decide/naming"

	corev1 "k8s.io/api/core/v1"
)

// The drivers whose credentials have a cheap check.
const (
	Amazon  = "amazonec2"
	VSphere = "vmwarevsphere"
)

// Names of fields, in credentials and machine configs.
const (
	FieldAccessKey         = "accessKey"
	FieldSecretKey         = "secretKey"
	FieldSessionToken      = "sessionToken"
	FieldRegion            = "region"
	FieldEndpoint          = "endpoint"
	FieldInsecureTransport = "insecureTransport"
	FieldUsername          = "username"
	FieldPassword          = "password"
	FieldVCenter           = "vcenter"
	FieldVCenterPort       = "vcenterPort"
)

// asked are the fields that a check needs.
var asked = map[string][]string{
	Amazon:  {FieldAccessKey, FieldSecretKey, FieldSessionToken, FieldRegion, FieldEndpoint, FieldInsecureTransport},
	VSphere: {FieldUsername, FieldPassword, FieldVCenter, FieldVCenterPort},
}

// secret are the fields that no name may be derived from.
var secret = []string{FieldSecretKey, FieldSessionToken, FieldPassword}

// Question is what a Job checks.
type Question struct {
	Driver string            `json:"driver"`
	Fields map[string]string `json:"fields"`
	// Authorities are certificate authorities in PEM that are trusted in addition to the image's.
	Authorities string `json:"authorities,omitempty"`
	// key identifies the question without its secrets.
	key string
}

// HasCheck reports whether credentials of a driver can be checked.
func HasCheck(driver string) bool { return len(asked[driver]) > 0 }

// Ask returns the question whether the cloud accepts a credential. A field of the credential precedes that of the
// machine config, as for the driver. So a machine config cannot send the password of a credential to another address.
// Config may be nil.
func Ask(driver string, credential *corev1.Secret, config *unstructured.Unstructured) Question {
	q := Question{Driver: driver, Fields: map[string]string{}}
	for key, value := range credential.Data {
		if name := cloudcredential.FieldOf(key); slices.Contains(asked[driver], name) && len(value) > 0 {
			q.Fields[name] = string(value)
		}
	}
	identity := []string{driver, credential.Namespace, credential.Name, Version(credential)}
	for _, name := range asked[driver] {
		value := ""
		if config != nil && q.Fields[name] == "" {
			value = text(config.Object[name])
		}
		if value == "" {
			continue
		}
		q.Fields[name] = value
		if slices.Contains(secret, name) {
			value = fmt.Sprintf("%s/%d", config.GetUID(), config.GetGeneration())
		}
		identity = append(identity, name+"="+value)
	}
	const digits = 10
	q.key = naming.SHA256(strings.Join(identity, "\n"))[:digits]
	return q
}

// Version identifies the values of a credential without revealing them.
func Version(credential *corev1.Secret) string {
	return string(credential.UID) + "/" + credential.ResourceVersion
}

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		if v {
			return "true"
		}
	}
	return ""
}

// Encode returns the question as the environment of the Job contains it.
func (q Question) Encode() ([]byte, error) { return json.Marshal(q) }

// DecodeQuestion reads a question in the Job.
func DecodeQuestion(text string) (Question, error) {
	var q Question
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return q, fmt.Errorf("variable %s: must be JSON", Variable)
	}
	return q, nil
}
