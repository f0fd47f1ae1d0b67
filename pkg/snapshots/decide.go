package snapshots

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/topology"
)

// Values of rkev1.SnapshotStorageAnnotation and of the snapshot's status.
const (
	storageS3    = "s3"
	storageLocal = "local"
	successful   = "successful"
	failed       = "failed"
)

const (
	// MaxFiles is how many snapshots of a cluster get an object: the youngest. What a distribution keeps by itself is five for each server.
	MaxFiles = 500
	// maxMetadata is the largest metadata that an object gets, in bytes of base64, and allMetadata what those of a cluster have together: the
	// youngest get theirs. The spec of a Cluster with everything in it takes some 20 KiB.
	maxMetadata = 128 << 10
	allMetadata = 8 << 20
)

// Cluster is whose snapshots they are: a provisioning Cluster.
type Cluster struct {
	Namespace, Name string
	UID             types.UID
}

// Machine is the Machine of Cluster API that a node is.
type Machine struct {
	Name string
	UID  types.UID
}

// Input is what Decide looks at.
type Input struct {
	Cluster Cluster
	// Files are the cluster's list. Complete is false when it has more; then nothing is deleted.
	Files    []File
	Complete bool
	// Machines are those of the cluster, by the names of their nodes.
	Machines map[string]Machine
	// Have are the ETCDSnapshots with the label of the cluster.
	Have []*rkev1.ETCDSnapshot
}

// Decision is what is to be done. Each list is in the order of names, and Update has whole objects.
type Decision struct {
	Create, Update, Delete []*rkev1.ETCDSnapshot
}

// Empty reports that there is nothing to do.
func (d Decision) Empty() bool { return len(d.Create)+len(d.Update)+len(d.Delete) == 0 }

// Decide compares what a cluster lists with the objects that there are (spec/02 §6.8). A file on a node that is no machine gets no object: nobody
// could restore it.
func Decide(in Input) Decision {
	var out Decision
	have := map[string]*rkev1.ETCDSnapshot{}
	for _, snapshot := range slices.SortedFunc(slices.Values(in.Have), byName) {
		of := snapshot.Annotations[rkev1.SnapshotNameAnnotation]
		switch {
		case of == "":
		case have[of] != nil: // of two objects for one file, one is too many
			out.Delete = append(out.Delete, snapshot)
		default:
			have[of] = snapshot
		}
	}
	left := allMetadata
	for _, file := range youngest(in.Files) {
		metadata := packed(file.Metadata, min(maxMetadata, left))
		left -= len(metadata)
		want, ok := desired(in, file, metadata)
		if !ok {
			continue
		}
		found := have[file.Name]
		delete(have, file.Name)
		switch {
		case found == nil:
			out.Create = append(out.Create, want)
		case found.DeletionTimestamp != nil:
		default:
			if changed := merged(found, want); !equality.Semantic.DeepEqual(changed, found) {
				out.Update = append(out.Update, changed)
			}
		}
	}
	if in.Complete {
		out.Delete = slices.AppendSeq(out.Delete, maps.Values(have))
	}
	out.Delete = slices.DeleteFunc(out.Delete, func(s *rkev1.ETCDSnapshot) bool { return s.DeletionTimestamp != nil })
	for _, list := range [][]*rkev1.ETCDSnapshot{out.Create, out.Update, out.Delete} {
		slices.SortFunc(list, byName)
	}
	return out
}

func byName(a, b *rkev1.ETCDSnapshot) int { return strings.Compare(a.Name, b.Name) }

// youngest are the last MaxFiles files, those without a time first to go.
func youngest(files []File) []File {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int {
		if c := unix(b) - unix(a); c != 0 {
			return int(max(-1, min(1, c)))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return files[:min(len(files), MaxFiles)]
}

func unix(f File) int64 {
	if f.CreatedAt == nil {
		return 0
	}
	return f.CreatedAt.Unix()
}

// desired is the object of a file, false when there is none.
func desired(in Input, file File, metadata string) (*rkev1.ETCDSnapshot, bool) {
	storage, owner := storageLocal, metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	if file.S3 != nil {
		// It outlives the machines that made it.
		storage = storageS3
		owner = metav1.OwnerReference{
			APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster", Name: in.Cluster.Name, UID: in.Cluster.UID,
		}
	} else {
		machine, ok := in.Machines[file.NodeName]
		if !ok {
			return nil, false
		}
		owner.Name, owner.UID = machine.Name, machine.UID
	}
	out := &rkev1.ETCDSnapshot{
		TypeMeta: metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "ETCDSnapshot"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Cluster.Namespace,
			Name:      naming.ETCDSnapshot(in.Cluster.Name, storage, file.SnapshotName, file.NodeName, file.Location, unix(file)),
			Labels:    map[string]string{rkev1.ClusterNameLabel: in.Cluster.Name},
			Annotations: map[string]string{
				rkev1.SnapshotNameAnnotation: file.Name, rkev1.SnapshotFileNameAnnotation: file.SnapshotName, rkev1.SnapshotStorageAnnotation: storage,
			},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: rkev1.ETCDSnapshotSpec{ClusterName: in.Cluster.Name},
		SnapshotFile: rkev1.ETCDSnapshotFile{
			Name: file.SnapshotName, NodeName: file.NodeName, Location: file.Location, Metadata: metadata, CreatedAt: file.CreatedAt,
			Size: file.Size, S3: file.S3.DeepCopy(), Status: failed, Message: file.Message,
		},
	}
	if storage == storageLocal && len(validation.IsValidLabelValue(file.NodeName)) == 0 {
		out.Labels[rkev1.NodeNameLabel] = file.NodeName
	}
	if file.Successful {
		out.SnapshotFile.Status = successful
	}
	out.Annotations[rkev1.SnapshotRestoreModesAnnotation] = strings.Join(restoreModes(metadata), ",")
	return out, true
}

// packed is how an object has metadata (spec/01 A.7). None are better than a part of them.
func packed(metadata map[string]string, limit int) string {
	if len(metadata) == 0 {
		return ""
	}
	encoded, err := json.Marshal(metadata) // with the keys in order
	if err != nil || base64.StdEncoding.EncodedLen(len(encoded)) > limit {
		return ""
	}
	return base64.StdEncoding.EncodeToString(encoded)
}

// restoreModes are those that metadata allow.
func restoreModes(metadata string) []string {
	modes := []string{string(rkev1.RestoreModeNone)}
	version, hasConfig, err := topology.DescribeSnapshot(metadata)
	if err != nil || version == "" {
		return modes
	}
	modes = append(modes, string(rkev1.RestoreModeKubernetesVersion))
	if hasConfig {
		modes = append(modes, string(rkev1.RestoreModeAll))
	}
	return modes
}

// merged is found with everything of want. Labels and annotations of others stay, and so does the credential, which no list names: people name one, for a
// storage that is not the cluster's any more.
func merged(found, want *rkev1.ETCDSnapshot) *rkev1.ETCDSnapshot {
	out, want := found.DeepCopy(), want.DeepCopy()
	if found.SnapshotFile.S3 != nil && want.SnapshotFile.S3 != nil {
		want.SnapshotFile.S3.CloudCredentialName = found.SnapshotFile.S3.CloudCredentialName
	}
	out.Labels, out.Annotations = union(out.Labels, want.Labels), union(out.Annotations, want.Annotations)
	out.OwnerReferences, out.Spec, out.SnapshotFile = want.OwnerReferences, want.Spec, want.SnapshotFile
	return out
}

func union(have, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}
