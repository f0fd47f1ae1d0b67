package driverschema

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// DriverSHA256Annotation is the SHA-256 of what was downloaded from status.appliedURL, on NodeDriver: machines are made
// with exactly the driver whose flags are known, whatever kind of checksum the NodeDriver has, or none.
const DriverSHA256Annotation = "drover.io/driver-sha256"

// Wanted reports whether a driver is to be installed: machines are made with it, or only its credentials are known.
func Wanted(driver *mgmtv3.NodeDriver) bool {
	return driver.Spec.Active || driver.Spec.AddCloudCredential
}

// NeedsInstall reports whether a driver has to be asked for its flags: it never was, its URL or checksum changed, the
// release of rancher-machine that it is compiled into changed, or its schema is gone.
func NeedsInstall(driver *mgmtv3.NodeDriver, schema *mgmtv3.DynamicSchema, machineVersion string) bool {
	if schema == nil || !conditions.IsTrue(driver.Status.Conditions, mgmtv3.NodeDriverConditionInstalled) ||
		!conditions.IsTrue(driver.Status.Conditions, mgmtv3.NodeDriverConditionDownloaded) {
		return true
	}
	if IsLocal(driver.Spec.URL) {
		return driver.Status.AppliedDockerMachineVersion != machineVersion
	}
	return driver.Status.AppliedURL != driver.Spec.URL || !strings.EqualFold(driver.Status.AppliedChecksum, driver.Spec.Checksum) ||
		driver.Annotations[DriverSHA256Annotation] == ""
}

// CacheKey names a download on the disk: another URL or checksum is another file.
func CacheKey(url, checksum string) string {
	sum := sha256.Sum256([]byte(url + checksum))
	return hex.EncodeToString(sum[:])
}

// DisplayName is the name under which kinds are made: the display name, or the object's own.
func DisplayName(driver *mgmtv3.NodeDriver) string {
	if driver.Spec.DisplayName != "" {
		return driver.Spec.DisplayName
	}
	return driver.Name
}

// Embedded returns the spec of an embedding with the fields of the given drivers and no others. Fields that are right stay
// as they are.
func (e Embedding) Embedded(spec mgmtv3.DynamicSchemaSpec, fields map[string]string) (mgmtv3.DynamicSchemaSpec, bool) {
	changed := false
	for field := range spec.ResourceFields {
		if _, wanted := fields[field]; !wanted {
			spec, _ = e.With(spec, field, "", false)
			changed = true
		}
	}
	for field, schema := range fields {
		var added bool
		spec, added = e.With(spec, field, schema, true)
		changed = changed || added
	}
	return spec, changed
}

// FailedInstall are the conditions of a driver that could not be fetched (Downloaded) or used (Installed).
func FailedInstall(failed, message string) []conditions.Condition {
	out := []conditions.Condition{{Type: failed, Status: rkev1.ConditionFalse, Reason: rkev1.ReasonError, Message: message}}
	if failed == mgmtv3.NodeDriverConditionInstalled {
		return append(out, conditions.Condition{Type: mgmtv3.NodeDriverConditionDownloaded, Status: rkev1.ConditionTrue})
	}
	return out
}
