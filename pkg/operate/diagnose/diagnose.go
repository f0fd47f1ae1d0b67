package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// How long a link can be Waiting before it counts as Broken.
const (
	// briefly is for work that a controller does at once.
	briefly = 2 * time.Minute
	// patiently is for work that a machine does: boot, download, join.
	patiently = 20 * time.Minute
	// deletionDeadline is when a deletion is overdue. It equals the default of the server's setting.
	deletionDeadline = 30 * time.Minute
)

// maxWhy is the limit for a repeated message, in bytes.
const maxWhy = 1000

// Diagnose finds the first broken link of every chain.
func Diagnose(w World) Report {
	root := Branch{Title: "Cluster " + w.Namespace + "/" + w.Name, Links: w.managementPlane()}
	root.Links = append(root.Links, w.clusterLinks()...)
	pools := w.pools()
	root.Branches = append(root.Branches, pools...)
	working := !slices.ContainsFunc(pools, func(b Branch) bool { return !b.works() })
	if w.deleting() {
		root.Branches = append(root.Branches, Branch{Title: "Removal", Links: []Link{w.deletion(working)}})
	} else {
		root.Branches = append(root.Branches,
			Branch{Title: "Control plane", Links: []Link{w.rollout(working)}},
			Branch{Title: "API", Links: w.api(working)})
	}
	w.finish(&root)
	out := Report{Cluster: w.Namespace + "/" + w.Name, At: w.Now, Tree: root, Notes: w.notes()}
	out.Findings = root.findings(nil)
	out.Result = resultOf(out.Findings)
	return out
}

// finish removes secrets from the texts, shortens them, and adds hints that match their words.
func (w *World) finish(b *Branch) {
	for i := range b.Links {
		l := &b.Links[i]
		if l.State == OK {
			l.Since, l.Reason, l.Why, l.Says = nil, "", "", ""
			continue
		}
		l.Do = append(hints(l.What+" "+l.Reason+" "+l.Why), l.Do...)
		l.What, l.Why, l.Says = w.told(l.What), w.told(l.Why), w.told(l.Says)
	}
	for i := range b.Branches {
		w.finish(&b.Branches[i])
	}
}

// told returns a text for the report: one line, short, without secrets.
func (w *World) told(text string) string {
	text = strings.Join(strings.Fields(redact.Text(w.Secrets.Mask(text))), " ")
	if len(text) > maxWhy {
		text = redact.Clip(text, maxWhy)
	}
	return text
}

// notes lists failed reads, and oddities of a working cluster.
func (w *World) notes() []string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(w.Unread)) {
		out = append(out, "cannot read "+kind+": "+w.told(w.Unread[kind]))
	}
	for _, hook := range w.Unasked {
		out = append(out, w.told("the API server skips a webhook of Drover, so only conditions show mistakes: "+
			hook.Name+": "+hook.Problem))
	}
	if w.ControlPlane == nil {
		return out
	}
	for _, c := range w.ControlPlane.Status.Conditions {
		if c.Status == rkev1.ConditionFalse && contains(warnings, c.Type) && c.Message != "" {
			out = append(out, w.told(c.Message))
		}
	}
	return out
}

// link starts with a link that works.
func link(name Name, object string) Link { return Link{Name: name, Object: object, State: OK} }

// broken marks a link as Broken.
func (l Link) broken(what string, do ...string) Link {
	l.State, l.What, l.Do = Broken, what, do
	return l
}

// waiting marks a link as Waiting since a time. The link is Broken once patience has passed. With an unknown time it
// stays Waiting.
func (l Link) waiting(w *World, what string, since time.Time, patience time.Duration, do ...string) Link {
	l.State, l.What = Waiting, what
	l = l.since(since)
	if !since.IsZero() && w.Now.Sub(since) > patience {
		l.State, l.Do = Broken, do
	}
	return l
}

func (l Link) unknown(why string) Link {
	l.State, l.What = Unknown, why
	return l
}

func (l Link) since(at time.Time) Link {
	if !at.IsZero() {
		at = at.UTC()
		l.Since = &at
	}
	return l
}

func (l Link) because(reason, why string) Link {
	l.Reason, l.Why = reason, why
	return l
}

// until sets what the link waits for, and the kinds whose events wake the waiting handler.
func (l Link) until(waitsFor string, wokenBy ...string) Link {
	l.WaitsFor, l.WokenBy = waitsFor, wokenBy
	return l
}

// of copies a condition's reason, message and last change.
func (l Link) of(c *rkev1.GenericCondition) Link {
	if c == nil {
		return l
	}
	return l.because(c.Reason, c.Message).since(parse(cmp.Or(c.LastUpdateTime, c.LastTransitionTime)))
}

// ofMeta is like of, for Cluster API's conditions.
func (l Link) ofMeta(c *metav1.Condition) Link {
	if c == nil {
		return l
	}
	return l.because(c.Reason, c.Message).since(c.LastTransitionTime.Time)
}

// saying is like of, for a condition of Drover's own. Its message is a sentence that needs no other words.
func (l Link) saying(c *rkev1.GenericCondition) Link {
	l = l.of(c)
	l.Says = l.Why
	return l
}

// ofEvent copies an Event's reason and message, unless the link has an explanation.
func (l Link) ofEvent(e *Event) Link {
	if e == nil || l.Why != "" {
		return l
	}
	return l.because(e.Reason, e.Message)
}

func parse(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{} // an unreadable time is unknown
	}
	return at
}

func contains(list []string, text string) bool { return slices.Contains(list, text) }

// explain is the command that explains a cluster.
func (w *World) explain() string {
	return fmt.Sprintf("see the planner's decision: drover explain %s -n %s", w.Name, w.Namespace)
}

// serverLogs says where to find the controllers' logs.
func serverLogs() string {
	return "see the logs of the leading server: kubectl -n drover-system logs deploy/drover, or the output of " +
		"drover server"
}

// get is the command that shows an object.
func (w *World) get(kind, name string) string {
	return fmt.Sprintf("see its conditions and events: kubectl -n %s describe %s %s", w.Namespace,
		strings.ToLower(kind), name)
}

// newest returns the newest pod, nil if there is none.
func newest(pods []*corev1.Pod) *corev1.Pod {
	if len(pods) == 0 {
		return nil
	}
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}
