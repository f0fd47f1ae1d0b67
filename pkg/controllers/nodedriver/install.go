package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"time"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// askTimeout is how long a driver may take to list its flags.
const askTimeout = 10 * time.Second

// result is the outcome of an installation.
type result struct {
	// installed means that this reconcile read the driver's flags.
	installed bool
	// name is the driver's name according to the program.
	name     string
	metadata driverschema.Metadata
	fields   map[string]mgmtv3.Field
	// sha256 is the checksum of the download.
	sha256 string
	// failed is the condition that becomes False, and message the reason. Both are empty after success.
	failed, message string
	// retry is the error to return to the work queue if a retry may help.
	retry error
}

func failure(condition string, err error) result {
	res := result{failed: condition, message: outcome.Stable(err.Error())}
	if transient := (*transientError)(nil); errors.As(err, &transient) {
		res.retry = err
	}
	return res
}

// transientError is a failure that a retry may resolve.
type transientError struct{ error }

func (t *transientError) Unwrap() error { return t.error }

// install reads the driver's flags if needed, and turns them into fields.
func (h *handler) install(s snapshot) result {
	metadata, err := driverschema.ParseMetadata(s.driver.Annotations)
	if err != nil {
		return failure(mgmtv3.NodeDriverConditionInstalled, err)
	}
	if owner := h.otherOwner(s.driver, s.name); owner != "" {
		return failure(mgmtv3.NodeDriverConditionInstalled, taken("spec.displayName", s.name, owner))
	}
	if !driverschema.NeedsInstall(s.driver, s.schema, h.core.Version) {
		return result{name: s.name, metadata: metadata, fields: s.schema.Spec.ResourceFields}
	}
	res, flags := h.flags(s)
	if res.failed != "" {
		return res
	}
	if res.fields, err = driverschema.Fields(flags, metadata); err != nil {
		return failure(mgmtv3.NodeDriverConditionInstalled, err)
	}
	res.metadata = metadata
	return res
}

// flags returns the flags of a compiled-in driver, or fetches the driver and asks it.
func (h *handler) flags(s snapshot) (result, []driverschema.Flag) {
	if driverschema.IsLocal(s.driver.Spec.URL) {
		flags, ok := h.core.Drivers[s.name]
		if !ok {
			return failure(mgmtv3.NodeDriverConditionInstalled,
					fmt.Errorf("spec.url: rancher-machine has no driver %q; set the URL of the driver's program",
						s.name)),
				nil
		}
		return result{installed: true, name: s.name}, flags
	}
	file, err := h.fetch(s.driver.Spec.URL, s.driver.Spec.Checksum)
	if err != nil {
		return failure(mgmtv3.NodeDriverConditionDownloaded, err), nil
	}
	if err := driverschema.ValidName(file.name); err != nil {
		return failure(mgmtv3.NodeDriverConditionInstalled, err), nil
	}
	if owner := h.otherOwner(s.driver, file.name); owner != "" {
		return failure(mgmtv3.NodeDriverConditionInstalled, taken("spec.url", file.name, owner)), nil
	}
	ctx, cancel := context.WithTimeout(h.Working, askTimeout)
	defer cancel()
	flags, err := ask(ctx, file.program, file.name)
	if err != nil {
		return failure(mgmtv3.NodeDriverConditionInstalled, err), nil
	}
	return result{installed: true, name: file.name, sha256: file.sha256}, flags
}

// taken is the error for a driver whose name another NodeDriver uses. It is transient, because no event reports the
// deletion of the other one.
func taken(field, name, owner string) error {
	return &transientError{fmt.Errorf("%s: NodeDriver %[3]s has installed driver %[2]q already", field, name, owner)}
}

// otherOwner returns another existing NodeDriver that has the schema of that name. Without this check, two NodeDrivers
// with one name would overwrite each other's schema endlessly.
func (h *handler) otherOwner(driver *mgmtv3.NodeDriver, name string) string {
	schema, err := h.schema(driverschema.ConfigSchema(name))
	if err != nil || schema == nil {
		return ""
	}
	for _, owner := range schema.OwnerReferences {
		if owner.Kind != "NodeDriver" || owner.UID == driver.UID {
			continue
		}
		if there, err := h.drivers.Get(owner.Name); err == nil && there.UID == owner.UID {
			return owner.Name
		}
	}
	return ""
}
