package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/topology"
)

// Storages of snapshots.
const (
	// StorageLocal: a file on the machine that took the snapshot.
	StorageLocal = "local"
	// StorageS3: an object in a bucket.
	StorageS3 = "s3"
)

// snapshotFailed is the status of a snapshot that was not taken.
const snapshotFailed = "failed"

// Snapshots are the snapshots of etcd that are known in a namespace: its ETCDSnapshots.
type Snapshots struct {
	Namespace string `json:"namespace"`
	// Cluster is the one whose snapshots are listed, empty for those of all.
	Cluster string `json:"cluster,omitempty"`
	// Snapshots, the youngest first. Those whose time is not known come last.
	Snapshots []Snapshot `json:"snapshots"`
}

// Snapshot is what is known of a snapshot.
type Snapshot struct {
	// Name is that of the ETCDSnapshot, which a restore names.
	Name string `json:"name"`
	// Cluster whose snapshot it is, empty when nobody says.
	Cluster string `json:"cluster,omitempty"`
	// Storage is local or s3.
	Storage string `json:"storage"`
	// Node that holds the file, or has put it into S3.
	Node string `json:"node,omitempty"`
	// Bucket and Folder in S3.
	Bucket string `json:"bucket,omitempty"`
	Folder string `json:"folder,omitempty"`
	// File is its name, for S3 the last part of the object's key.
	File string `json:"file,omitempty"`
	// Status is successful or failed, empty for one that somebody wrote. Message says why it failed.
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// Size in bytes, 0 when it is not known.
	Size int64 `json:"size,omitempty"`
	// TakenAt is when the distribution took it.
	TakenAt *metav1.Time `json:"takenAt,omitempty"`
	// KubernetesVersion is what the cluster had then, empty when the metadata do not tell.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// Failed reports that there is nothing to restore.
func (s Snapshot) Failed() bool { return s.Status == snapshotFailed }

// Place is where the snapshot is, in words.
func (s Snapshot) Place() string {
	switch {
	case s.Storage != StorageS3 && s.Node == "":
		return "a machine of the cluster"
	case s.Storage != StorageS3:
		return "node " + s.Node
	case s.Bucket == "":
		return "S3"
	case s.Folder != "":
		return "S3, bucket " + s.Bucket + ", folder " + s.Folder
	}
	return "S3, bucket " + s.Bucket
}

// Snapshots lists the snapshots of a cluster, or of all clusters of the namespace. That there are none of a cluster which does not exist is an error.
func (r *Reader) Snapshots(cluster string) (Snapshots, error) {
	out := Snapshots{Namespace: r.namespace, Cluster: cluster, Snapshots: []Snapshot{}}
	list, err := r.plans.Snapshots.Cache().List(r.namespace, labels.Everything())
	if err != nil {
		return out, fmt.Errorf("list ETCDSnapshots of %s: %w", r.namespace, err)
	}
	for _, object := range list {
		if s := snapshotOf(object); cluster == "" || s.Cluster == cluster {
			out.Snapshots = append(out.Snapshots, s)
		}
	}
	slices.SortFunc(out.Snapshots, younger)
	if cluster != "" && len(out.Snapshots) == 0 {
		_, err = r.Cluster(cluster)
	}
	return out, err
}

// Snapshot describes an ETCDSnapshot, nil when there is none of that name.
func (r *Reader) Snapshot(name string) (*Snapshot, error) {
	object, err := r.plans.Snapshots.Cache().Get(r.namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil is the documented answer
	}
	if err != nil {
		return nil, fmt.Errorf("read ETCDSnapshot %s/%s: %w", r.namespace, name, err)
	}
	s := snapshotOf(object)
	return &s, nil
}

// younger puts the youngest first.
func younger(a, b Snapshot) int { return cmp.Or(unix(b)-unix(a), strings.Compare(a.Name, b.Name)) }

func unix(s Snapshot) int {
	if s.TakenAt == nil {
		return 0
	}
	return int(s.TakenAt.Unix())
}

// snapshotOf describes an object. Whose it is, is read as the planner does.
func snapshotOf(object *rkev1.ETCDSnapshot) Snapshot {
	file := &object.SnapshotFile
	out := Snapshot{
		Name: object.Name, Cluster: cmp.Or(object.Spec.ClusterName, object.Labels[rkev1.ClusterNameLabel]), Storage: StorageLocal, Node: file.NodeName,
		File: file.Name, Status: file.Status, Message: file.Message, Size: file.Size, TakenAt: file.CreatedAt,
	}
	if file.S3 != nil {
		out.Storage, out.Bucket, out.Folder = StorageS3, file.S3.Bucket, file.S3.Folder
	}
	if out.Node == StorageS3 {
		out.Node = "" // what older objects have there
	}
	if version, _, err := topology.DescribeSnapshot(file.Metadata); err == nil {
		out.KubernetesVersion = version // metadata that cannot be read tell nothing
	}
	return out
}
