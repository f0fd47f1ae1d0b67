package naming

import (
	"crypto/sha1" //nolint:gosec // sha1 is part of the wire format of apply sets, not a protection
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// commonKey is the part of a machine template that may change without a new template: labels, taints and credential of
// the pool.
const commonKey = "common"

// MachineTemplateHash returns the eight digits that distinguish the machine templates of one pool. machineDeployment is
// the name of the pool's MachineDeployment, and spec is the template's spec.template.spec.
//
// The key "common" and top-level values that are null, "" or an empty list do not count. An edit of a pool's labels,
// taints or credential therefore keeps the template. The values false, 0 and empty maps do count.
// (docs/wire/names.md#hashes-in-names: another rule would replace every machine of an existing cluster.)
func MachineTemplateHash(machineDeployment string, spec map[string]any) (string, error) {
	counted := make(map[string]any, len(spec))
	for key, value := range spec {
		if key != commonKey && !isEmptyTemplateValue(value) {
			counted[key] = value
		}
	}
	encoded, err := json.Marshal(counted)
	if err != nil {
		return "", fmt.Errorf("encode machine template of %s: %w", machineDeployment, err)
	}
	return SHA256(machineDeployment + string(encoded))[:8], nil
}

func isEmptyTemplateValue(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case []string:
		return len(v) == 0
	default:
		return false
	}
}

// BootstrapTemplateHash returns the eight digits that distinguish the bootstrap templates of one pool on another
// provider's infrastructure. userdata is the pool's inline user data, "" when it has none.
// (docs/wire/names.md#hashes-in-names.)
func BootstrapTemplateHash(machineDeployment, userdata string) string {
	return SHA256(machineDeployment + userdata)[:8]
}

// ApplySet returns the value of label objectset.rio.cattle.io/hash. It is the SHA-1 of the set's id, its owner's
// group-version-kind as apimachinery prints it ("provisioning.cattle.io/v1, Kind=Cluster"), and the owner's name and
// namespace. (docs/wire/names.md#apply-sets: backup and support tooling select by it.)
func ApplySet(setID, ownerGVK, ownerName, ownerNamespace string) string {
	sum := sha1.Sum([]byte(setID + ownerGVK + ownerName + ownerNamespace)) //nolint:gosec // wire format, see the import
	return hex.EncodeToString(sum[:])
}

// ProvisioningPrincipal returns the principal of one provisioning cluster, in the form that the user directory stores.
func ProvisioningPrincipal(namespace, cluster string) string {
	return "system://provisioning/" + namespace + "/" + cluster
}

// User returns the name of the user object of a principal. (docs/wire/names.md#users-and-token-digests.)
func User(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "u-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
}

// CAChecksum returns the checksum by which machines and agents verify the server: the hexadecimal SHA-256 of its
// authorities in PEM with one newline at the end, or "" without authorities (docs/wire/endpoints.md#authorities).
func CAChecksum(pem string) string {
	pem = strings.TrimRight(pem, "\n")
	if pem == "" {
		return ""
	}
	return SHA256(pem + "\n")
}

// TokenHash returns base64url(sha256(token)). It is the index key of registration tokens, and the CATTLE_TOKEN in a
// bootstrap script for a service account token. (docs/wire/names.md#users-and-token-digests.)
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.URLEncoding.EncodeToString(sum[:])
}
