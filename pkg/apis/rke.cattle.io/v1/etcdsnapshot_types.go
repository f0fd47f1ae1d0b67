package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=etcdsnapshots,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Storage",type=string,JSONPath=`.metadata.annotations['etcdsnapshot\.rke\.io/storage']`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.snapshotFile.nodeName`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.snapshotFile.status`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.snapshotFile.size`
// +kubebuilder:printcolumn:name="Taken",type=date,JSONPath=`.snapshotFile.createdAt`
// +kubebuilder:printcolumn:name="File",type=string,JSONPath=`.snapshotFile.name`,priority=1
// +kubebuilder:metadata:labels={"auth.cattle.io/cluster-indexed=true"}
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ETCDSnapshot is an existing snapshot of a cluster, on one of its machines or in S3. Drover creates an object for each
// snapshot that the cluster lists, and deletes the object with the file. Drover does not change objects that you create
// for unlisted files.
type ETCDSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the cluster of the snapshot.
	// +optional
	Spec ETCDSnapshotSpec `json:"spec,omitzero"`

	// SnapshotFile is the snapshot itself, as the distribution reported it.
	// +optional
	SnapshotFile ETCDSnapshotFile `json:"snapshotFile,omitzero"`

	// Status of the object.
	// +optional
	Status ETCDSnapshotStatus `json:"status"`
}

// ETCDSnapshotSpec names the cluster of an ETCDSnapshot.
type ETCDSnapshotSpec struct {
	// ClusterName is the cluster of the snapshot.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
}

// ETCDSnapshotFile is a snapshot as the distribution reports it.
type ETCDSnapshotFile struct {
	// Name of the file. For S3, the last part of the object's key.
	// +optional
	Name string `json:"name,omitempty"`

	// NodeName is the node with the file. Older objects have `s3` here for snapshots in S3.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// Location is the URI of the file, `file:///…` or `s3://BUCKET/…`.
	// +optional
	Location string `json:"location,omitempty"`

	// Metadata is base64 of a JSON object with string values that was stored with the snapshot.
	// +optional
	Metadata string `json:"metadata,omitempty"`

	// CreatedAt is the time of the snapshot.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// Size of the file in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`

	// S3 is the storage with the file. Absent if the file is on a machine.
	// +optional
	S3 *ETCDSnapshotS3 `json:"s3,omitempty"`

	// Status is `successful` or `failed`.
	// +optional
	Status string `json:"status,omitempty"`

	// Message is the reason of the failure.
	// +optional
	Message string `json:"message,omitempty"`
}

// ETCDSnapshotStatus is the status of an ETCDSnapshot.
type ETCDSnapshotStatus struct {
	// Missing is always written and has no meaning.
	// +required
	Missing bool `json:"missing"`
}
