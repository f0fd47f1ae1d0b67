package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/pager"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Storages of snapshots.
const (
	// storageLocal: a file on the machine that took the snapshot.
	storageLocal = "local"
	// storageS3: an object in a bucket.
	storageS3 = "s3"
)

// Snapshots are the known etcd snapshots of a namespace: its ETCDSnapshots.
type Snapshots struct {
	Namespace string `json:"namespace"`
	// Cluster whose snapshots are listed, empty for all clusters.
	Cluster string `json:"cluster,omitempty"`
	// Snapshots, newest first. Snapshots with unknown time come last.
	Snapshots []Snapshot `json:"snapshots"`
}

// Snapshot describes a snapshot.
type Snapshot struct {
	// Name of the ETCDSnapshot. A restore uses this name.
	Name string `json:"name"`
	// Cluster of the snapshot, empty if unknown.
	Cluster string `json:"cluster,omitempty"`
	// Storage is local or s3.
	Storage string `json:"storage"`
	// Node that has the file, or that uploaded it to S3.
	Node string `json:"node,omitempty"`
	// Bucket and Folder in S3.
	Bucket string `json:"bucket,omitempty"`
	Folder string `json:"folder,omitempty"`
	// File is the file's name. For S3 it is the last part of the object's key.
	File string `json:"file,omitempty"`
	// Status is successful or failed, empty for an object that a user wrote. Message says why the snapshot failed.
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// Size in bytes, 0 if unknown.
	Size int64 `json:"size,omitempty"`
	// TakenAt is when the distribution took the snapshot.
	TakenAt *metav1.Time `json:"takenAt,omitempty"`
	// KubernetesVersion of the cluster at that time, empty if the metadata lack it.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// HasConfig is true if the metadata contain the cluster's rkeConfig, which a restore can put back.
	HasConfig bool `json:"hasConfig,omitempty"`
}

// Failed reports whether the snapshot cannot be restored because taking it failed.
func (s Snapshot) Failed() bool { return s.Status == snapshots.Failed }

// Age is the snapshot's age in words, empty if unknown.
func (s Snapshot) Age(now time.Time) string {
	if s.TakenAt == nil {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(s.TakenAt.Time), 0))
}

// Place describes the snapshot's location in words.
func (s Snapshot) Place() string {
	switch {
	case s.Storage != storageS3 && s.Node == "":
		return "a machine of the cluster"
	case s.Storage != storageS3:
		return "node " + s.Node
	case s.Bucket == "":
		return "S3"
	case s.Folder != "":
		return "S3, bucket " + s.Bucket + ", folder " + s.Folder
	}
	return "S3, bucket " + s.Bucket
}

// Snapshots lists the snapshots of a cluster, or of all clusters of the namespace. An empty list is an error if the
// cluster does not exist.
func (r *Reader) Snapshots(ctx context.Context, cluster string) (Snapshots, error) {
	out := Snapshots{Namespace: r.namespace, Cluster: cluster, Snapshots: []Snapshot{}}
	// Their metadata are large, so they come in pages.
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return r.clients.RKE.ETCDSnapshot().List(r.namespace, options)
	}))
	for _, selector := range selectorsOf(cluster) {
		list, _, err := pages.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			err = meta.EachListItem(list, func(object runtime.Object) error {
				if one, ok := object.(*rkev1.ETCDSnapshot); ok && (cluster == "" || ownerOf(one) == cluster) {
					out.Snapshots = append(out.Snapshots, snapshotOf(one))
				}
				return nil
			})
		}
		if err != nil {
			return out, fmt.Errorf("list ETCDSnapshots of %s: %w", r.namespace, err)
		}
	}
	slices.SortFunc(out.Snapshots, younger)
	if cluster != "" && len(out.Snapshots) == 0 {
		if _, err := r.Cluster(cluster); err != nil {
			return out, err
		}
	}
	return out, nil
}

// selectorsOf returns label selectors for the possible snapshots of the cluster: objects with its label, and objects
// without a cluster label. The selector is empty without a cluster, and for a cluster whose name is not a valid label
// value.
func selectorsOf(cluster string) []string {
	if cluster == "" || len(validation.IsValidLabelValue(cluster)) > 0 {
		return []string{""}
	}
	return []string{rkev1.ClusterNameLabel + "=" + cluster, "!" + rkev1.ClusterNameLabel}
}

// snapshotResource is the resource of ETCDSnapshots.
var snapshotResource = rkev1.SchemeGroupVersion.WithResource("etcdsnapshots").GroupResource()

// Snapshot describes an ETCDSnapshot, nil if none has that name.
func (r *Reader) Snapshot(name string) (*Snapshot, error) {
	object, err := r.snapshot(name)
	if object == nil {
		return nil, err
	}
	s := snapshotOf(object)
	return &s, nil
}

// snapshot reads an ETCDSnapshot, nil if none has that name.
func (r *Reader) snapshot(name string) (*rkev1.ETCDSnapshot, error) {
	object, err := r.plans.Snapshots.Cache().Get(r.namespace, name)
	if IsAbsent(err, snapshotResource, name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ETCDSnapshot %s/%s: %w", r.namespace, name, err)
	}
	return object, nil
}

// younger orders snapshots newest first.
func younger(a, b Snapshot) int { return cmp.Or(unix(b)-unix(a), strings.Compare(a.Name, b.Name)) }

func unix(s Snapshot) int {
	if s.TakenAt == nil {
		return 0
	}
	return int(s.TakenAt.Unix())
}

// ownerOf returns the cluster of a snapshot, by the planner's rules. It is empty if unknown.
func ownerOf(object *rkev1.ETCDSnapshot) string {
	return cmp.Or(object.Spec.ClusterName, object.Labels[rkev1.ClusterNameLabel])
}

// snapshotOf describes an ETCDSnapshot.
func snapshotOf(object *rkev1.ETCDSnapshot) Snapshot {
	file := &object.SnapshotFile
	out := Snapshot{
		Name: object.Name, Cluster: ownerOf(object), Storage: storageLocal, Node: file.NodeName,
		File: file.Name, Status: file.Status, Message: file.Message, Size: file.Size, TakenAt: file.CreatedAt,
	}
	if file.S3 != nil {
		out.Storage, out.Bucket, out.Folder = storageS3, file.S3.Bucket, file.S3.Folder
	}
	if out.Node == storageS3 {
		out.Node = "" // a value of older objects
	}
	if version, hasConfig, err := topology.DescribeSnapshot(file.Metadata); err == nil {
		out.KubernetesVersion, out.HasConfig = version, hasConfig // unreadable metadata contain neither
	}
	return out
}
