package scaling

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var (
	errMark = errors.New("the body must be a Machine in JSON")
	errSize = errors.New("the body must be a Scale in JSON, or a merge patch of one, with spec.replicas")
)

// mark turns an update of a Machine into a patch of its mark for deletion alone. Labels and the spec of a Machine
// decide to which cluster it belongs, and which roles it has. An autoscaler runs in a cluster, and must not change
// these.
func mark(r *http.Request) error {
	var machine struct {
		Kind     string `json:"kind"`
		Metadata struct {
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := read(r, &machine); err != nil || machine.Kind != "Machine" {
		return errMark
	}
	var value any // null removes it
	if set, has := machine.Metadata.Annotations[clusterv1.DeleteMachineAnnotation]; has {
		value = set
	}
	return replace(r, machine.Metadata.ResourceVersion, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{clusterv1.DeleteMachineAnnotation: value}}})
}

// size turns a scaling into a patch of the size alone, and refuses a size above largest. The controllers of Cluster API
// create all machines of a size at once, before Drover can correct it.
func size(r *http.Request, largest int32) error {
	var scale struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	if err := read(r, &scale); err != nil || scale.Spec.Replicas == nil {
		return errSize
	}
	if *scale.Spec.Replicas > largest {
		return fmt.Errorf("%w: autoscalingMaxSize of the pool is %d", errNotAllowed, largest)
	}
	return replace(r, scale.Metadata.ResourceVersion, map[string]any{
		"metadata": map[string]any{}, "spec": map[string]any{"replicas": *scale.Spec.Replicas}})
}

func read(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// replace makes a request a merge patch of an object in that version, "" for any. The original body is not
// forwarded, because the API server may read it in another way.
func replace(r *http.Request, version string, patch map[string]any) error {
	if version != "" {
		patch["metadata"].(map[string]any)["resourceVersion"] = version
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	r.Method, r.Body, r.ContentLength = http.MethodPatch, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.TransferEncoding = nil
	r.Header.Set("Content-Type", string(types.MergePatchType))
	return nil
}
