package crashpoints

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestBare(t *testing.T) {
	const owner, other = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	machine := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Machine", "metadata": map[string]any{"name": "m", "uid": owner, "resourceVersion": "7",
			"annotations": map[string]any{applied: "H4sI", "at": "2026-01-02T03:04:05Z"}},
		"status": map[string]any{"observedGeneration": int64(2), "conditions": []any{map[string]any{"type": "Ready"},
			map[string]any{"type": "Available"}}},
	}}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Secret", "metadata": map[string]any{"namespace": "c-m-abcdefgh", "name": "s", "uid": other,
			"ownerReferences": []any{map[string]any{"uid": owner, "name": "m"}}},
		"data": map[string]any{"value": "dWlkIDAwMDAwMDAwLTAwMDAtNDAwMC04MDAwLTAwMDAwMDAwMDAwMQ=="},
	}}
	want := map[string]any{
		"Machine /m": map[string]any{
			"kind": "Machine", "metadata": map[string]any{"name": "m", "annotations": map[string]any{"at": "<time>"}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Available"},
				map[string]any{"type": "Ready"}}},
		},
		"Secret c-m-…/s": map[string]any{
			"kind": "Secret", "metadata": map[string]any{"namespace": "c-m-…", "name": "s",
				"ownerReferences": []any{map[string]any{"name": "m"}}},
			"data": map[string]any{"value": "uid <uid of Machine m>"},
		},
	}
	if diff := cmp.Diff(want, Bare([]*unstructured.Unstructured{machine, secret})); diff != "" {
		t.Errorf("bare objects (-want +got):\n%s", diff)
	}
	if machine.GetUID() != owner {
		t.Error("the objects themselves are changed")
	}
}
