package hold

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func conditionOf(kind, state, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": state, "reason": reason, "message": message}
}

func listOf(items ...any) []any { return items }

func TestChange_IsWrittenOnNewerVersions(t *testing.T) {
	ready := conditionOf("Ready", "False", "NotReady", "")
	readyNow := conditionOf("Ready", "True", "Ready", "")
	plan := conditionOf("PlanApplied", "True", "Applied", "")
	for _, test := range []struct {
		name             string
		from, to, newest status
		want             status
	}{
		{
			name: "a field that another writer does not touch",
			from: status{}, to: status{"phase": "Pending"},
			newest: status{"failureDomain": "a"},
			want:   status{"failureDomain": "a", "phase": "Pending"},
		}, {
			name: "a field that another writer has written since",
			from: status{"phase": "Pending"}, to: status{"phase": "Provisioning"},
			newest: status{"phase": "Failed"},
			want:   status{"phase": "Failed"},
		}, {
			name: "a field that another writer has removed",
			from: status{"phase": "Pending"}, to: status{"phase": "Provisioning"},
			newest: status{},
			want:   status{},
		}, {
			name: "a condition that another writer adds stays, after the known ones",
			from: status{"conditions": listOf(ready)}, to: status{"conditions": listOf(readyNow)},
			newest: status{"conditions": listOf(plan, ready)},
			want:   status{"conditions": listOf(readyNow, plan)},
		}, {
			name: "a condition that another writer changes stays",
			from: status{"conditions": listOf(plan)}, to: status{"conditions": listOf(plan, ready)},
			newest: status{"conditions": listOf(conditionOf("PlanApplied", "False", "Error", ""))},
			want:   status{"conditions": listOf(conditionOf("PlanApplied", "False", "Error", ""), ready)},
		}, {
			name: "conditions keep the order of the later status",
			from: status{"conditions": listOf(plan)}, to: status{"conditions": listOf(ready, plan)},
			newest: status{"conditions": listOf(plan)},
			want:   status{"conditions": listOf(ready, plan)},
		}, {
			name: "a removed condition goes, and its list with it",
			from: status{"conditions": listOf(plan)}, to: status{},
			newest: status{"conditions": listOf(plan), "phase": "Running"},
			want:   status{"phase": "Running"},
		}, {
			name: "deprecated conditions are merged by type",
			from: status{},
			to: status{"deprecated": map[string]any{"v1beta1": map[string]any{
				"conditions": listOf(ready)}}},
			newest: status{"deprecated": map[string]any{"v1beta1": map[string]any{"conditions": listOf(plan)}}},
			want: status{"deprecated": map[string]any{"v1beta1": map[string]any{
				"conditions": listOf(ready, plan)}}},
		}, {
			name: "an empty map becomes one with a field",
			from: status{"workers": map[string]any{}}, to: status{"workers": map[string]any{"replicas": int64(1)}},
			newest: status{"workers": map[string]any{}},
			want:   status{"workers": map[string]any{"replicas": int64(1)}},
		}, {
			name: "a nested field goes, and its map stays with the others",
			from: status{"workers": map[string]any{"replicas": int64(1), "readyReplicas": int64(1)}},
			to:   status{"workers": map[string]any{"replicas": int64(1)}}, newest: status{
				"workers": map[string]any{"replicas": int64(1), "readyReplicas": int64(1)}},
			want: status{"workers": map[string]any{"replicas": int64(1)}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := difference(test.from, test.to).apply(test.newest)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if got := difference(test.from, test.to).apply(test.from); cmp.Diff(test.to, got) != "" {
				t.Errorf("on the same version (-want +got):\n%s", cmp.Diff(test.to, got))
			}
		})
	}
}

// TestFlatten_PathsAreUnique: the held statuses have no maps with free keys, whose names could have a slash.
func TestFlatten_PathsAreUnique(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		switch of.Kind() {
		case reflect.Pointer:
			walk(of.Elem(), path)
		case reflect.Map:
			t.Errorf("%s is a map", path)
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for field := range of.Fields() {
				walk(field.Type, path+"."+field.Name)
			}
		default: // a list is one field, except for conditions
		}
	}
	for _, of := range []any{clusterv1.MachineStatus{}, clusterv1.MachineSetStatus{},
		clusterv1.MachineDeploymentStatus{}, clusterv1.ClusterStatus{}} {
		walk(reflect.TypeOf(of), reflect.TypeOf(of).Name())
	}
}
