package events

import (
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// Event is one event about one object.
type Event struct {
	// Object is what the event is about.
	Object corev1.ObjectReference
	// Type is Normal, or Warning for what needs a user's attention.
	Type string
	// Reason is a constant of this package.
	Reason Reason
	// Message is a sentence for users, of at most MaxMessage bytes.
	Message string
	// Step is set if this is a step of a machine, which may be combined with those of other machines. Else it is nil.
	Step *Step
}

// MaxMessage is the length of the longest message, in bytes. The API server's limit is 1024.
const MaxMessage = 1000

var (
	clusterKind      = provv1.SchemeGroupVersion.WithKind("Cluster")
	controlPlaneKind = rkev1.SchemeGroupVersion.WithKind("RKEControlPlane")
	machineKind      = clusterv1.GroupVersion.WithKind("Machine")
	driverKind       = mgmtv3.SchemeGroupVersion.WithKind("NodeDriver")
	workspaceKind    = mgmtv3.SchemeGroupVersion.WithKind("FleetWorkspace")
	chartKind        = mgmtv3.SchemeGroupVersion.WithKind("ManagedChart")
)

// list collects the events of one object.
type list struct {
	object corev1.ObjectReference
	events []Event
}

// about begins a list. It takes the kind, because objects in caches do not contain it.
func about(kind schema.GroupVersionKind, object metav1.Object) *list {
	version, name := kind.ToAPIVersionAndKind()
	return &list{object: corev1.ObjectReference{
		APIVersion: version, Kind: name, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
	}}
}

func (l *list) normal(reason Reason, parts ...string) { l.add(corev1.EventTypeNormal, reason, parts) }

func (l *list) warning(reason Reason, parts ...string) { l.add(corev1.EventTypeWarning, reason, parts) }

// add adds an event. Its message joins the non-empty parts with colons.
func (l *list) add(kind string, reason Reason, parts []string) {
	var texts []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			texts = append(texts, part)
		}
	}
	l.events = append(l.events, Event{Object: l.object, Type: kind, Reason: reason, Message: bounded(strings.Join(texts,
		": "))})
}

// bounded cuts a text to MaxMessage bytes, between letters.
func bounded(text string) string {
	const mark = "…"
	if len(text) <= MaxMessage {
		return text
	}
	end := MaxMessage - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// conditionState is the content of a condition, of either condition type.
type conditionState struct{ status, reason, message string }

func ownCondition(conditions []rkev1.GenericCondition, kind string) conditionState {
	for _, c := range conditions {
		if c.Type == kind {
			return conditionState{c.Status, c.Reason, c.Message}
		}
	}
	return conditionState{}
}

func metaCondition(conditions []metav1.Condition, kind string) conditionState {
	for _, c := range conditions {
		if c.Type == kind {
			return conditionState{string(c.Status), c.Reason, c.Message}
		}
	}
	return conditionState{}
}

// transition is the change of a condition. A changed message alone does not count, because messages change during
// progress.
type transition struct{ was, is conditionState }

// became reports whether the condition changed to that status, or to another reason for it.
func (n transition) became(status string) bool {
	return n.is.status == status && (n.was.status != status || n.was.reason != n.is.reason)
}

// wasCorrected reports whether the condition is still False for a problem of the spec, but for another one. Users
// correct one field after another. The texts of errors that Drover tries again may change more often.
func (n transition) wasCorrected() bool {
	return n.was.status == rkev1.ConditionFalse && n.is.status == rkev1.ConditionFalse &&
		n.is.reason != rkev1.ReasonError && n.was.message != n.is.message
}

// left reports whether the condition was True and no longer is.
func (n transition) left() bool {
	return n.was.status == rkev1.ConditionTrue && n.is.status != rkev1.ConditionTrue
}

// why returns the reason and the message, without a reason that only repeats the status.
func (s conditionState) why() string {
	switch {
	case s.reason == "" || s.reason == rkev1.ReasonError || s.reason == rkev1.ReasonWaiting:
		return s.message
	case s.message == "":
		return s.reason
	}
	return s.reason + ": " + s.message
}

// redacted returns one short line from the end of another program's text, without what looks like a secret.
func redacted(text string) string { return machinejob.Shown(text) }
