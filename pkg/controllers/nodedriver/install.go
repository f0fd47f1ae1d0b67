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

// askTimeout is how long a driver may take to say its flags.
const askTimeout = 10 * time.Second

// result is what became of an installation.
type result struct {
	// installed is true when the driver was asked for its flags in this pass.
	installed bool
	// name of the driver as the program says it.
	name     string
	metadata driverschema.Metadata
	fields   map[string]mgmtv3.Field
	// sha256 of the download.
	sha256 string
	// failed is the condition that is False, and message says why. Empty when all is well.
	failed, message string
	// retry is returned to the queue: trying again may help.
	retry error
}

func failure(condition string, err error) result {
	res := result{failed: condition, message: outcome.Stable(err.Error())}
	if transient := (*transientError)(nil); errors.As(err, &transient) {
		res.retry = err
	}
	return res
}

// transientError is a failure that another attempt may not have.
type transientError struct{ error }

func (t *transientError) Unwrap() error { return t.error }

// install asks the driver for its flags if that is needed, and turns them into fields.
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

// flags fetches the driver if it is no compiled-in one, and asks it.
func (h *handler) flags(s snapshot) (result, []driverschema.Flag) {
	if driverschema.IsLocal(s.driver.Spec.URL) {
		flags, ok := h.core.Drivers[s.name]
		if !ok {
			return failure(mgmtv3.NodeDriverConditionInstalled,
				fmt.Errorf("spec.url: rancher-machine has no driver %q; give the URL of the driver's program", s.name)), nil
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

// taken is the failure of a driver whose name another one has. No event tells when that one goes.
func taken(field, name, owner string) error {
	return &transientError{fmt.Errorf("%s: this is driver %q, which NodeDriver %s has installed", field, name, owner)}
}

// otherOwner is the NodeDriver that has a schema of that name, if it is another one and still there: of two with one name, one would take the schema
// from the other without end.
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
