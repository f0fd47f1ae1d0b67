package topology

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

const (
	// maxSnapshotSpec limits the spec in a snapshot's metadata after decompression, in bytes. A stored Cluster is never
	// larger. The metadata come from inside the cluster and could unpack to gigabytes.
	maxSnapshotSpec = 2 << 20
	// maxSnapshotVersion limits a version, because messages contain it.
	maxSnapshotVersion = 64
)

// Fixed texts, so that an error contains nothing from the metadata.
var (
	errSnapshotMetadata = errors.New("the snapshot's metadata must be base64 of a JSON object of strings")
	errSnapshotSpec     = errors.New("the cluster's spec in the snapshot's metadata must be base64 of gzipped JSON")
	errSnapshotTooLarge = fmt.Errorf("the cluster's spec in the snapshot's metadata is larger than %d MiB",
		maxSnapshotSpec>>20)
	errSnapshotVersion = fmt.Errorf("the Kubernetes version in the snapshot's metadata is longer than %d bytes",
		maxSnapshotVersion)
	errSpecFormat = errors.New("the cluster's spec in the snapshot's metadata has a format that this release does " +
		"not know")
	errControlPlaneSpec = errors.New("annotation " + rkev1.ClusterSpecAnnotation + " of the RKEControlPlane must be " +
		"base64 of gzipped JSON")
)

// VersionOfSnapshot returns the Kubernetes version of the cluster from the metadata of an ETCDSnapshot; empty when they
// do not contain one. The stored spec may be of any age, so only the version is decoded.
func VersionOfSnapshot(metadata string) (string, error) {
	version, _, err := DescribeSnapshot(metadata)
	return version, err
}

// DescribeSnapshot returns the version as VersionOfSnapshot does, and whether the metadata contain the cluster's
// rkeConfig.
func DescribeSnapshot(metadata string) (version string, hasConfig bool, err error) {
	encoded, err := specInMetadata(metadata)
	if err != nil || encoded == nil {
		return "", false, err
	}
	var spec struct {
		KubernetesVersion string          `json:"kubernetesVersion"`
		RKEConfig         json.RawMessage `json:"rkeConfig"`
	}
	if err := json.Unmarshal(encoded, &spec); err != nil {
		return "", false, errSnapshotSpec
	}
	if len(spec.KubernetesVersion) > maxSnapshotVersion {
		return "", false, errSnapshotVersion
	}
	return spec.KubernetesVersion, len(spec.RKEConfig) > 0 && string(spec.RKEConfig) != "null", nil
}

// SpecOfSnapshot returns the whole spec of the cluster from the metadata of an ETCDSnapshot, nil when they do not
// contain one. It fails for a spec in a format that this program does not know.
func SpecOfSnapshot(metadata string) (*provv1.ClusterSpec, error) {
	encoded, err := specInMetadata(metadata)
	if err != nil || encoded == nil {
		return nil, err
	}
	return decodeSpec(encoded)
}

// SpecOfControlPlane returns the spec of the Cluster that an RKEControlPlane was made from, by its annotation
// rkev1.ClusterSpecAnnotation. The spec has no requests for operations.
func SpecOfControlPlane(annotation string) (*provv1.ClusterSpec, error) {
	encoded, err := unpackSpec(annotation)
	if err != nil {
		return nil, errControlPlaneSpec
	}
	return decodeSpec(encoded)
}

func decodeSpec(encoded []byte) (*provv1.ClusterSpec, error) {
	spec := &provv1.ClusterSpec{}
	if err := json.Unmarshal(encoded, spec); err != nil {
		return nil, errSpecFormat
	}
	return spec, nil
}

// specInMetadata returns the spec as JSON, nil when the metadata contain none.
func specInMetadata(metadata string) ([]byte, error) {
	if metadata == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(metadata)
	if err != nil {
		return nil, errSnapshotMetadata
	}
	var values map[string]string
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, errSnapshotMetadata
	}
	packed := values[rkev1.SnapshotClusterSpecKey]
	if packed == "" {
		return nil, nil
	}
	return unpackSpec(packed)
}

// unpackSpec decodes the result of encodeSpec to JSON.
func unpackSpec(packed string) ([]byte, error) {
	compressed, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, errSnapshotSpec
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, errSnapshotSpec
	}
	encoded, err := io.ReadAll(io.LimitReader(reader, maxSnapshotSpec+1))
	switch {
	case err != nil:
		return nil, errSnapshotSpec
	case len(encoded) > maxSnapshotSpec:
		return nil, errSnapshotTooLarge
	}
	return encoded, nil
}
