package driverschema

import (
	"cmp"
	"strings"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// DriverSHA256Annotation on a NodeDriver is the SHA-256 of the download from status.appliedURL. It ensures that Drover
// creates machines with exactly the driver whose flags it knows, even when the NodeDriver has no checksum.
const DriverSHA256Annotation = "drover.io/driver-sha256"

// Wanted reports whether a driver has to be installed: for machines, or only for its cloud credentials.
func Wanted(driver *mgmtv3.NodeDriver) bool {
	return driver.Spec.Active || driver.Spec.AddCloudCredential
}

// NeedsInstall reports whether Drover has to ask a driver for its flags. That is the case when it never did, or when
// the URL, the checksum or the release of rancher-machine changed. It is also the case when the schema is missing.
func NeedsInstall(driver *mgmtv3.NodeDriver, schema *mgmtv3.DynamicSchema, machineVersion string) bool {
	if schema == nil || !conditions.IsTrue(driver.Status.Conditions, mgmtv3.NodeDriverConditionInstalled) ||
		!conditions.IsTrue(driver.Status.Conditions, mgmtv3.NodeDriverConditionDownloaded) {
		return true
	}
	if IsLocal(driver.Spec.URL) {
		return driver.Status.AppliedDockerMachineVersion != machineVersion
	}
	return driver.Status.AppliedURL != driver.Spec.URL || !strings.EqualFold(driver.Status.AppliedChecksum,
		driver.Spec.Checksum) ||
		driver.Annotations[DriverSHA256Annotation] == ""
}

// DisplayName is the name from which kinds are named: the display name, or the object's name.
func DisplayName(driver *mgmtv3.NodeDriver) string {
	if driver.Spec.DisplayName != "" {
		return driver.Spec.DisplayName
	}
	return driver.Name
}

// Named returns the NodeDriver with a name, or else the first one with that display name, and nil if there is none. An
// active one precedes an inactive one, because Drover creates inactive ones for the drivers of vendors, and an
// administrator may have given the same driver another name.
func Named(drivers []*mgmtv3.NodeDriver, name string) *mgmtv3.NodeDriver {
	var found *mgmtv3.NodeDriver
	rank := func(d *mgmtv3.NodeDriver) (out int) {
		if d.Spec.Active {
			out = 2
		}
		if d.Name == name {
			out++
		}
		return out
	}
	for _, d := range drivers {
		if d.Name != name && !strings.EqualFold(DisplayName(d), name) {
			continue
		}
		if found == nil || cmp.Or(rank(d)-rank(found), strings.Compare(found.Name, d.Name)) > 0 {
			found = d
		}
	}
	return found
}

// Embedded returns the spec of an embedding with exactly the fields of the given drivers. Correct fields stay
// unchanged.
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

// FailedInstall returns the conditions of a driver that could not be downloaded (Downloaded) or used (Installed).
func FailedInstall(failed, message string) []conditions.Condition {
	out := []conditions.Condition{{Type: failed, Status: rkev1.ConditionFalse, Reason: rkev1.ReasonError,
		Message: message}}
	if failed == mgmtv3.NodeDriverConditionInstalled {
		return append(out, conditions.Condition{Type: mgmtv3.NodeDriverConditionDownloaded,
			Status: rkev1.ConditionTrue})
	}
	return out
}
