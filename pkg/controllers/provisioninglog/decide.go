package provisioninglog

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// Format of the log, which user interfaces read (docs/wire/names.md#provisioning-log).
const (
	mostBytes = 10000

	levelInfo  = " [INFO ] "
	levelError = " [ERROR] "

	doneMessage     = "provisioning done"
	conflictMessage = "the object has been modified; please apply your changes to the latest version and try again"
	conflictPrefix  = "Transient error encountered: "
)

// created matches the namespaces in which the controller creates a log. It only updates logs of other namespaces.
var created = regexp.MustCompile(`^c-m-[a-z0-9]{8}$`)

// Decision is what to write.
type Decision struct {
	// Log is the ConfigMap to create or to update. Nil writes nothing.
	Log *corev1.ConfigMap
	// After is the time until the next line may be written. Zero means that only events matter.
	After time.Duration
}

// Decide returns the log with the Cluster's present message, unless the log ends with it. A log does not begin with the
// end: a Cluster that was settled before costs no write after an upgrade or an adoption.
func Decide(f Facts) Decision {
	message, level := choose(f.Status)
	if message == "" || f.Log == nil && !created.MatchString(f.Namespace) {
		return Decision{}
	}
	log := f.Log.DeepCopy()
	if log == nil {
		log = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace,
			Name: provv1.ProvisioningLogName}}
	}
	text := log.Data[provv1.ProvisioningLogKey]
	if log.DeletionTimestamp != nil || message == log.Data[provv1.ProvisioningLogLastKey] ||
		text == "" && message == doneMessage {
		return Decision{}
	}
	at := f.Now.Format(time.RFC3339)
	if strings.HasPrefix(text[lastLine(text):], at) {
		return Decision{After: f.Now.Truncate(time.Second).Add(time.Second).Sub(f.Now)}
	}
	log.Data = map[string]string{
		provv1.ProvisioningLogKey:     shorten(text + at + level + message + "\n"),
		provv1.ProvisioningLogLastKey: message,
	}
	return Decision{Log: log}
}

// choose returns the message of a Cluster, on one line and without secrets, and its level.
func choose(status provv1.ClusterStatus) (message, level string) {
	level = levelInfo
	provisioned := conditions.Get(status.Conditions, provv1.ConditionProvisioned)
	switch {
	case provisioned == nil:
		return "", level
	case provisioned.Status == rkev1.ConditionFalse:
		level = levelError
	}
	message = provisioned.Message
	if message == "" && provisioned.Status == rkev1.ConditionTrue {
		if updated := conditions.Get(status.Conditions, provv1.ConditionUpdated); updated != nil {
			message = updated.Message
		}
		if message == "" && status.Ready {
			message = doneMessage
		}
	}
	if strings.Contains(message, conflictMessage) {
		message = conflictPrefix + message
	}
	return strings.Join(strings.Fields(redact.Text(message)), " "), level
}

// shorten removes whole lines from the beginning of a log that is too long.
func shorten(log string) string {
	for len(log) > mostBytes {
		_, log, _ = strings.Cut(log, "\n")
	}
	return log
}

// lastLine returns where the last line of a log begins.
func lastLine(log string) int { return strings.LastIndex(strings.TrimSuffix(log, "\n"), "\n") + 1 }
