package nodedriver

import (
	"errors"
	"fmt"
	"time"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// result is the outcome of an installation.
type result struct {
	// installed means that this reconcile read the driver's flags.
	installed bool
	// name is the driver's name according to the program.
	name     string
	metadata driverschema.Metadata
	// fields are the driver's fields. Nil while they are unknown.
	fields map[string]mgmtv3.Field
	// sha256 is the checksum of the download.
	sha256 string
	// failed is the condition that becomes False, and message the reason. Both are empty after success.
	failed, message string
	// waiting is why the fields are not known yet.
	waiting string
	// insecure is why Drover would not install the driver, which it uses since it was permitted.
	insecure string
	// after is the time until the next check without an event. Zero means that only events matter.
	after time.Duration
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
func (h *handler) install(s snapshot) (result, error) {
	metadata, err := driverschema.ParseMetadata(s.driver.Annotations)
	if err != nil {
		return failure(mgmtv3.NodeDriverConditionInstalled, err), nil
	}
	if owner := h.otherOwner(s.driver, s.name); owner != "" {
		return failure(mgmtv3.NodeDriverConditionInstalled, taken("spec.displayName", s.name, owner)), nil
	}
	var insecure error
	if !s.settings.Insecure {
		insecure = driverschema.CheckSource(s.driver.Spec.URL, s.driver.Spec.Checksum)
	}
	if !driverschema.NeedsInstall(s.driver, s.schema, h.core.Version) {
		res := result{name: s.name, metadata: metadata, fields: s.schema.Spec.ResourceFields}
		if insecure != nil {
			res.insecure = insecure.Error()
		}
		return res, h.tidy(s)
	}
	if insecure != nil {
		return failure(mgmtv3.NodeDriverConditionDownloaded, insecure), nil
	}
	res, flags, err := h.flags(s)
	if err != nil || flags == nil {
		return res, err
	}
	fields, err := driverschema.Fields(flags, metadata)
	if err != nil {
		return failure(mgmtv3.NodeDriverConditionInstalled, err), nil
	}
	res.fields, res.metadata = fields, metadata
	return res, nil
}

// flags returns the flags of a driver, nil if they are not known. Those of a compiled-in driver come from a table, and
// those of another driver from its Job.
func (h *handler) flags(s snapshot) (result, []driverschema.Flag, error) {
	if driverschema.IsLocal(s.driver.Spec.URL) {
		flags, ok := h.core.Drivers[s.name]
		if !ok {
			return failure(mgmtv3.NodeDriverConditionInstalled,
				fmt.Errorf("spec.url: rancher-machine has no driver %q; set the URL of the driver's program",
					s.name)), nil, nil
		}
		return result{installed: true, name: s.name}, flags, nil
	}
	jobs, err := h.gatherJobs(s.driver)
	if err != nil {
		return result{}, nil, err
	}
	decision := driverjob.Decide(driverjob.Key(s.driver, s.settings), s.driver.Spec.Checksum, jobs, h.Now())
	if err := h.act(s, jobs, decision); err != nil {
		return result{}, nil, err
	}
	found := decision.Result
	if found == nil {
		return result{failed: decision.Failed, message: decision.Message, waiting: decision.Waiting,
			after: decision.After}, nil, nil
	}
	if owner := h.otherOwner(s.driver, found.Name); owner != "" {
		return failure(mgmtv3.NodeDriverConditionInstalled, taken("spec.url", found.Name, owner)), nil, nil
	}
	return result{installed: true, name: found.Name, sha256: found.SHA256}, found.Flags, nil
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
