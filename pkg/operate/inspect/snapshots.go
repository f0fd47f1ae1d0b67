package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Storages of snapshots.
const (
	// storageLocal: a file on the machine that took the snapshot.
	storageLocal = "local"
	// storageS3: an object in a bucket.
	storageS3 = "s3"
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

// Snapshots lists the snapshots of a cluster, or of all clusters of the namespace. That there are none of a cluster which does not exist is an error.
func (r *Reader) Snapshots(cluster string) (Snapshots, error) {
	out := Snapshots{Namespace: r.namespace, Cluster: cluster, Snapshots: []Snapshot{}}
	list := func(options metav1.ListOptions) (*rkev1.ETCDSnapshotList, error) {
		return r.clients.RKE.ETCDSnapshot().List(r.namespace, options)
	}
	for _, selector := range selectorsOf(cluster) {
		found, err := pages(list, selector, cluster)
		if err != nil {
			return out, fmt.Errorf("list ETCDSnapshots of %s: %w", r.namespace, err)
		}
		out.Snapshots = append(out.Snapshots, found...)
	}
	slices.SortFunc(out.Snapshots, younger)
	if cluster != "" && len(out.Snapshots) == 0 {
		if _, err := r.Cluster(cluster); err != nil {
			return out, err
		}
	}
	return out, nil
}

// selectorsOf are the labels of what may be a snapshot of the cluster: those of it, and those of which no label says whose they are. Everything may be one where no
// cluster is named, or one whose name no label can have.
func selectorsOf(cluster string) []string {
	if cluster == "" || len(validation.IsValidLabelValue(cluster)) > 0 {
		return []string{""}
	}
	return []string{rkev1.ClusterNameLabel + "=" + cluster, "!" + rkev1.ClusterNameLabel}
}

// pageSize is how many snapshots are read at a time: their metadata are large.
const pageSize = 500

// pages lists the snapshots of a cluster, or all of them, page by page. A list whose next page is too old to be had begins anew, as a whole.
func pages(list func(metav1.ListOptions) (*rkev1.ETCDSnapshotList, error), selector, cluster string) ([]Snapshot, error) {
	var out []Snapshot
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := list(options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			out, options.Limit, options.Continue = nil, 0, ""
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if cluster == "" || ownerOf(&page.Items[i]) == cluster {
				out = append(out, snapshotOf(&page.Items[i]))
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// snapshotResource is that of ETCDSnapshots.
var snapshotResource = rkev1.SchemeGroupVersion.WithResource("etcdsnapshots").GroupResource()

// Snapshot describes an ETCDSnapshot, nil when there is none of that name.
func (r *Reader) Snapshot(name string) (*Snapshot, error) {
	object, err := r.plans.Snapshots.Cache().Get(r.namespace, name)
	if IsAbsent(err, snapshotResource, name) {
		return nil, nil
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

// ownerOf is the cluster whose snapshot it is, read as the planner does; empty when nobody says.
func ownerOf(object *rkev1.ETCDSnapshot) string {
	return cmp.Or(object.Spec.ClusterName, object.Labels[rkev1.ClusterNameLabel])
}

// snapshotOf describes an object.
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
		out.Node = "" // what older objects have there
	}
	if version, _, err := topology.DescribeSnapshot(file.Metadata); err == nil {
		out.KubernetesVersion = version // metadata that cannot be read tell nothing
	}
	return out
}
