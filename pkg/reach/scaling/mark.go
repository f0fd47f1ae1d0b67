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

var errMark = errors.New("the body must be a Machine in JSON")

// mark turns an update of a Machine into a patch of its mark for deletion alone. Labels and the spec of a Machine
// decide to which cluster it belongs, and which roles it has. An autoscaler runs in a cluster, and must not change
// these.
func mark(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read the Machine: %w", err)
	}
	var machine struct {
		Kind     string `json:"kind"`
		Metadata struct {
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &machine); err != nil || machine.Kind != "Machine" {
		return errMark
	}
	var value any // null removes it
	if set, has := machine.Metadata.Annotations[clusterv1.DeleteMachineAnnotation]; has {
		value = set
	}
	metadata := map[string]any{"annotations": map[string]any{clusterv1.DeleteMachineAnnotation: value}}
	if version := machine.Metadata.ResourceVersion; version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode the mark: %w", err)
	}
	r.Method, r.Body, r.ContentLength = http.MethodPatch, io.NopCloser(bytes.NewReader(patch)), int64(len(patch))
	r.TransferEncoding = nil
	r.Header.Set("Content-Type", string(types.MergePatchType))
	return nil
}
