package planstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// Conditions holds conditions of a Machine by type.
type Conditions map[string]planner.Condition

// ProposalWaits is how long proposed conditions wait for another write to their Machine.
const ProposalWaits = time.Second

type proposal struct {
	want  Conditions
	since time.Time // on the caller's clock
	at    time.Time
}

// Propose writes conditions of a Machine with the next call of SetConditions, so that one event costs one write. It
// returns how long they may still wait. The caller then proposes them again, and a proposal that has waited is written.
// Zero means that the conditions are written. Another proposal for the Machine replaces the former one, and an empty
// one withdraws it.
func (s *Machines) Propose(cached *clusterv1.Machine, want Conditions, now time.Time) (time.Duration, error) {
	missing := Conditions{}
	for kind, condition := range want {
		if ReadCondition(s.newest(cached), kind) != condition {
			missing[kind] = condition
		}
	}
	if left := s.propose(cached.UID, missing, now); left > 0 {
		return left, nil
	}
	_, err := s.SetConditions(cached, missing, now)
	return 0, err
}

// propose records a proposal, and returns how long it may still wait.
func (s *Machines) propose(machine types.UID, want Conditions, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(want) == 0 {
		delete(s.proposed, machine)
		return 0
	}
	known, ok := s.proposed[machine]
	if !ok || !maps.Equal(known.want, want) {
		known = proposal{want: want, since: now, at: time.Now()}
		s.proposed[machine] = known
		s.dropLater()
	}
	return max(0, ProposalWaits-now.Sub(known.since))
}

// withProposed adds what is proposed for a Machine.
func (s *Machines) withProposed(machine types.UID, want Conditions) Conditions {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.proposed[machine].want)
	if all == nil {
		return want
	}
	maps.Copy(all, want)
	return all
}

var errMoved = errors.New("another client moves the conditions of the machine")

// SetConditions writes conditions of a Machine, into its list and into the deprecated list of older tools. It returns
// nil if all are already there. One patch changes these conditions alone, because Cluster API writes the status of
// Machines all the time. If a condition has moved within its list, SetConditions reads the Machine and retries once.
func (s *Machines) SetConditions(cached *clusterv1.Machine, want Conditions, now time.Time) (*clusterv1.Machine,
	error) {
	want = s.withProposed(cached.UID, want)
	stored, err := s.patchConditions(s.newest(cached), want, now)
	if isMoved(err) {
		var live *clusterv1.Machine
		live, err = s.client.Get(cached.Namespace, cached.Name, metav1.GetOptions{})
		if err == nil && live.UID == cached.UID {
			stored, err = s.patchConditions(live, want, now)
		}
	}
	if isMoved(err) {
		err = apierrors.NewConflict(clusterv1.GroupVersion.WithResource("machines").GroupResource(), cached.Name,
			errMoved)
	}
	if err != nil {
		s.Forget(cached.UID)
		return nil, fmt.Errorf("set conditions of machine %s: %w", cached.Name, err)
	}
	s.propose(cached.UID, nil, now)
	return stored, nil
}

// isMoved reports whether the API server refused a patch because the object has changed. Either a test of the patch
// failed, or the condition that the patch appends exists by now. The answer to a failed test names no field. An answer
// about an invalid condition names one.
func isMoved(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || !slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type != metav1.CauseTypeFieldValueDuplicate
	})
}

// patchConditions returns nil if all conditions are already there.
func (s *Machines) patchConditions(before *clusterv1.Machine, want Conditions, now time.Time) (*clusterv1.Machine,
	error) {
	after := before.DeepCopy()
	var changed []string
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if setBoth(after, kind, want[kind], now) {
			changed = append(changed, kind)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	patch, err := conditionsPatch(before, after, changed)
	if err != nil {
		return nil, fmt.Errorf("compare the conditions: %w", err)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the conditions: %w", err)
	}
	stored, err := s.client.Patch(before.Namespace, before.Name, types.JSONPatchType, body, "status")
	if err != nil {
		return nil, err
	}
	return s.remember(stored), nil
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// conditionLists returns the paths of the two lists of conditions in a Machine.
func conditionLists() [][]string {
	return [][]string{{"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"}}
}

// conditionsPatch returns the patch that changes the conditions of these types. It tests the UID and the place of each
// condition. Only where it creates a list it also tests the version, because the list of another client may be newer.
func conditionsPatch(before, after *clusterv1.Machine, changed []string) ([]operation, error) {
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, err
	}
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, err
	}
	patch := []operation{{"test", "/metadata/uid", before.UID}}
	for _, list := range conditionLists() {
		if missing := firstMissing(was, list); missing != nil {
			if before.ResourceVersion != "" { // a rehearsed object may have none
				patch = append(patch, operation{"test", "/metadata/resourceVersion", before.ResourceVersion})
			}
			value, _, _ := unstructured.NestedFieldNoCopy(is, missing...)
			patch = append(patch, operation{"add", "/" + strings.Join(missing, "/"), value})
			if len(missing) == 1 {
				break // the whole status includes the other list
			}
			continue
		}
		patch = append(patch, placed(was, is, list, changed)...)
	}
	return patch, nil
}

// firstMissing returns the shortest part of a path that leads to nothing, nil if the whole path leads to elements.
func firstMissing(object map[string]any, path []string) []string {
	for n := range path {
		value, _, _ := unstructured.NestedFieldNoCopy(object, path[:n+1]...)
		fields, _ := value.(map[string]any)
		if elements, _ := value.([]any); len(fields)+len(elements) == 0 {
			return path[:n+1]
		}
	}
	return nil
}

// placed returns the operations that replace conditions of a list at their places, or append them. The API server
// refuses a second condition of the same type.
func placed(was, is map[string]any, path, changed []string) []operation {
	before, _, _ := unstructured.NestedSlice(was, path...)
	after, _, _ := unstructured.NestedSlice(is, path...)
	list := "/" + strings.Join(path, "/")
	var patch []operation
	for _, kind := range changed {
		isKind := func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["type"] == kind
		}
		value := after[slices.IndexFunc(after, isKind)]
		i := slices.IndexFunc(before, isKind)
		if i < 0 {
			patch = append(patch, operation{"add", list + "/-", value})
			continue
		}
		at := fmt.Sprintf("%s/%d", list, i)
		patch = append(patch, operation{"test", at + "/type", kind}, operation{"replace", at, value})
	}
	return patch
}

// ReadCondition returns a condition of a Machine as the planner compares it, zero when absent.
func ReadCondition(machine *clusterv1.Machine, kind string) planner.Condition {
	c := conditions.GetMeta(machine.Status.Conditions, kind)
	if c == nil {
		return planner.Condition{}
	}
	return planner.Condition{Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
}

func setBoth(machine *clusterv1.Machine, kind string, want planner.Condition, now time.Time) bool {
	if ReadCondition(machine, kind) == want {
		return false
	}
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{
		Type: kind, Status: string(want.Status), Reason: want.Reason, Message: want.Message,
	}, machine.Generation, now)
	setDeprecated(machine, kind, want, now)
	return true
}

// setDeprecated writes the condition into the list that tools of the older API read.
//
//nolint:staticcheck // the list is deprecated, and conditions of Machines are written to both (docs/wire/names.md#conditions)
func setDeprecated(machine *clusterv1.Machine, kind string, want planner.Condition, now time.Time) {
	if machine.Status.Deprecated == nil {
		machine.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{}
	}
	if machine.Status.Deprecated.V1Beta1 == nil {
		machine.Status.Deprecated.V1Beta1 = &clusterv1.MachineV1Beta1DeprecatedStatus{}
	}
	list := &machine.Status.Deprecated.V1Beta1.Conditions
	next := clusterv1.Condition{
		Type: clusterv1.ConditionType(kind), Status: want.Status, Reason: want.Reason, Message: want.Message,
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	if want.Status == corev1.ConditionFalse {
		next.Severity = clusterv1.ConditionSeverityError
	}
	for i := range *list {
		if (*list)[i].Type == next.Type {
			if (*list)[i].Status == next.Status {
				next.LastTransitionTime = (*list)[i].LastTransitionTime
			}
			(*list)[i] = next
			return
		}
	}
	*list = append(*list, next)
}
