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
	// maxSnapshotSpec limits the spec in a snapshot's metadata after decompression, in bytes. No Cluster that was ever stored is
	// larger, and the metadata come from inside the cluster: they could unpack to gigabytes.
	maxSnapshotSpec = 2 << 20
	// maxSnapshotVersion limits a version, which ends up in messages.
	maxSnapshotVersion = 64
)

// Fixed texts, so that no content of the metadata gets into an error.
var (
	errSnapshotMetadata = errors.New("the snapshot's metadata must be base64 of a JSON object of texts")
	errSnapshotSpec     = errors.New("the cluster's spec in the snapshot's metadata must be base64 of gzipped JSON")
	errSnapshotTooLarge = fmt.Errorf("the cluster's spec in the snapshot's metadata is larger than %d MiB", maxSnapshotSpec>>20)
	errSnapshotVersion  = fmt.Errorf("the Kubernetes version in the snapshot's metadata is longer than %d bytes", maxSnapshotVersion)
)

// VersionOfSnapshot reads from the metadata of an ETCDSnapshot which Kubernetes version its cluster had; empty when they do not
// tell. The spec in there may be of any age, so nothing but the version is decoded.
func VersionOfSnapshot(metadata string) (string, error) {
	version, _, err := DescribeSnapshot(metadata)
	return version, err
}

// DescribeSnapshot is VersionOfSnapshot, and also says whether the metadata hold the cluster's rkeConfig.
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

// unpackSpec takes off what encodeSpec put around the JSON.
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
