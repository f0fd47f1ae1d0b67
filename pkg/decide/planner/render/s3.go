package render

import (
	"cmp"
	"crypto/md5" //nolint:gosec // the file name's hash is wire: nodes hold files under these names already
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
)

const fieldS3 = "spec.rkeConfig.etcd.s3"

// option is one key of the main configuration. The same keys with two dashes are command line arguments.
type option struct {
	key   string
	value any
}

// s3Options returns the configuration keys for snapshots in S3, in the order of the command line, and the file with the
// endpoint's authority if there is one. Values of the spec override defaults of the credential.
func (m *machinePlan) s3Options(s3 *rkev1.ETCDSnapshotS3) ([]option, *plan.File, error) {
	if !s3Enabled(s3) {
		return nil, nil, nil
	}
	credential, err := m.s3Credential(s3)
	if err != nil {
		return nil, nil, err
	}
	var options []option
	add := func(name, value string) {
		if value != "" {
			options = append(options, option{"etcd-s3-" + name, value})
		}
	}
	add("bucket", cmp.Or(s3.Bucket, credential["defaultBucket"]))
	add("access-key", credential["accessKey"])
	add("secret-key", credential["secretKey"])
	add("region", cmp.Or(s3.Region, credential["defaultRegion"]))
	add("folder", cmp.Or(s3.Folder, credential["defaultFolder"]))
	add("endpoint", cmp.Or(s3.Endpoint, credential["defaultEndpoint"]))
	if s3.SkipSSLVerify || credential["defaultSkipSSLVerify"] == "true" {
		options = append(options, option{"etcd-s3-skip-ssl-verify", true})
	}
	ca, err := m.s3Authority(cmp.Or(s3.EndpointCA, credential["defaultEndpointCA"]))
	if err != nil {
		return nil, nil, err
	}
	if ca != nil {
		add("endpoint-ca", ca.Path)
	}
	if s3.Retention > 0 {
		options = append(options, option{"etcd-s3-retention", int64(s3.Retention)})
	}
	return append(options, option{"etcd-s3", true}), ca, nil
}

// s3Enabled reports whether the settings name a storage for snapshots.
func s3Enabled(s3 *rkev1.ETCDSnapshotS3) bool {
	return s3 != nil && (s3.Bucket != "" || s3.Endpoint != "" || s3.Folder != "" || s3.CloudCredentialName != "" ||
		s3.Region != "")
}

// s3Credential reads the credential's Secret. Its keys look like s3credentialConfig-accessKey; the part after the last
// dash counts.
func (m *machinePlan) s3Credential(s3 *rkev1.ETCDSnapshotS3) (map[string]string, error) {
	if s3.CloudCredentialName == "" {
		return nil, nil
	}
	name := credentialName(m.in.ControlPlane.Namespace, s3.CloudCredentialName)
	secret, err := m.secret(fieldS3+".cloudCredentialName", name)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		out[cloudcredential.FieldOf(key)] = string(value)
	}
	return out, nil
}

// s3Authority is the file for an authority in PEM or base64 of PEM. Its name contains a hash of the base64 text, so
// that another authority is another file.
func (m *machinePlan) s3Authority(authority string) (*plan.File, error) {
	if authority == "" {
		return nil, nil
	}
	encoded := authority
	if block, _ := pem.Decode([]byte(authority)); block != nil {
		encoded = base64.StdEncoding.EncodeToString([]byte(authority))
	} else if _, err := base64.StdEncoding.DecodeString(authority); err != nil {
		return nil, fmt.Errorf("%s.endpointCA must be PEM, or base64 of PEM", fieldS3)
	}
	sum := md5.Sum([]byte(encoded)) //nolint:gosec // see the import
	name := fmt.Sprintf("%s-%s.crt", partS3CA, hex.EncodeToString(sum[:])[:5])
	return &plan.File{Path: m.dirs.ConfigPart(name), Content: encoded}, nil
}
