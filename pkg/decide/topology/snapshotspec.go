package topology

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	if metadata == "" {
		return "", false, nil
	}
	raw, err := base64.StdEncoding.DecodeString(metadata)
	if err != nil {
		return "", false, errSnapshotMetadata
	}
	var values map[string]string
	if err := json.Unmarshal(raw, &values); err != nil {
		return "", false, errSnapshotMetadata
	}
	packed := values[rkev1.SnapshotClusterSpecKey]
	if packed == "" {
		return "", false, nil
	}
	encoded, err := unpackSpec(packed)
	if err != nil {
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
