package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
)

func poolOf(replicas int32, group, infra, bootstrap string) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-all"}}
	md.Spec.Replicas = &replicas
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group,
		Kind: "PodMachineTemplate", Name: infra}
	md.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: rkeGroup,
		Kind: "RKEBootstrapTemplate", Name: bootstrap}
	return md
}

func templateOf(name, config, size string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"size": size, "common": map[string]any{"labels": name},
		}}}}}
	object.SetKind("PodMachineTemplate")
	object.SetName(name)
	object.SetAnnotations(map[string]string{rkev1.ClonedFromNameAnnotation: config})
	return object
}

func TestReplacements(t *testing.T) {
	ours, theirs := machineGroup, "infrastructure.example.com"
	for name, tc := range map[string]struct {
		was, now      *clusterv1.MachineDeployment
		before, after *unstructured.Unstructured
		want          disruption.Cause // empty: nothing is replaced
	}{
		"the machine config is edited": {was: poolOf(2, ours, "a", "b"), now: poolOf(2, ours, "c", "b"),
			before: templateOf("a", "nc", "small"), after: templateOf("c", "nc", "big"), want: disruption.EditPool},
		"the pool has another machine config": {was: poolOf(2, ours, "a", "b"), now: poolOf(2, ours, "c", "b"),
			before: templateOf("a", "nc", "small"), after: templateOf("c", "nd", "small"), want: disruption.EditPool},
		"a template is renamed": {was: poolOf(2, ours, "a", "b"), now: poolOf(2, ours, "c", "b"),
			before: templateOf("a", "nc", "small"), after: templateOf("c", "nc", "small"), want: disruption.Unknown},
		"the old template is deleted": {was: poolOf(2, ours, "a", "b"), now: poolOf(2, ours, "c", "b"),
			after: templateOf("c", "nc", "small"), want: disruption.EditPool},
		"a missing template": {was: poolOf(2, ours, "a", "b"), now: poolOf(2, ours, "c", "b"),
			want: disruption.Unknown},
		"bootstraps are renamed": {was: poolOf(2, ours, "a", "b"), now: poolOf(2, ours, "a", "c"),
			want: disruption.Unknown},
		"user data of another provider's pool": {was: poolOf(2, theirs, "a", "b"), now: poolOf(2, theirs, "a", "c"),
			want: disruption.EditPool},
		"another template of another provider": {was: poolOf(2, theirs, "a", "b"), now: poolOf(2, theirs, "c", "b"),
			want: disruption.EditPool},
		"a pool is scaled":        {was: poolOf(2, ours, "a", "b"), now: poolOf(3, ours, "a", "b")},
		"a pool without machines": {was: poolOf(0, ours, "a", "b"), now: poolOf(1, ours, "c", "b")},
		"a new pool":              {now: poolOf(1, ours, "c", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			var existing []*clusterv1.MachineDeployment
			if tc.was != nil {
				existing = append(existing, tc.was)
			}
			desired := []runtime.Object{tc.now}
			if tc.after != nil {
				desired = []runtime.Object{tc.after, tc.now}
			}
			var got []disruption.Cause
			for _, r := range Replacements(existing, desired,
				func(clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured { return tc.before }) {
				if r.Machines != 2 || r.Deployment != tc.was || r.Template != "c" {
					t.Errorf("replacement %+v", r)
				}
				got = append(got, r.Cause)
			}
			var want []disruption.Cause
			if tc.want != "" {
				want = append(want, tc.want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}
