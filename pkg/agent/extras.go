package agent

import (
	"bytes"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// extrasRetry is how long the agent omits keys that the server did not keep.
const extrasRetry = time.Hour

// extraKeys are the data keys that only Drover's agent reports.
var extraKeys = []string{nodeplan.KeySSHHostKeys, nodeplan.KeyAgentVersion, nodeplan.KeyAgentUpgrade}

// extras is the part of a report that other servers do not know. They drop it, or refuse the report.
type extras struct {
	hostKeys hostKeys
	upgrades upgrades
	// omitUntil is when the agent reports extras again after a server did not keep them.
	omitUntil time.Time
}

// add adds the keys whose values differ from the Secret's to a report.
func (e *extras) add(data, report map[string][]byte, now time.Time) {
	if now.Before(e.omitUntil) {
		return
	}
	e.hostKeys.add(data, report)
	e.upgrades.addTo(report, data)
}

// sent looks at the Secret after an accepted report. A server that dropped a key gets it again later.
func (e *extras) sent(data, report map[string][]byte, now time.Time) {
	for _, key := range extraKeys {
		if value, ok := report[key]; ok && !bytes.Equal(value, data[key]) {
			e.omitUntil = now.Add(extrasRetry)
		}
	}
}

// refused reports whether a report may have been refused because of the extras. The next report then omits them.
func (e *extras) refused(err error, report map[string][]byte, now time.Time) bool {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return false
	}
	for _, key := range extraKeys {
		if _, ok := report[key]; ok {
			e.omitUntil = now.Add(extrasRetry)
			return true
		}
	}
	return false
}
