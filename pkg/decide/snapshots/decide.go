package snapshots

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Values of rkev1.SnapshotStorageAnnotation and of the snapshot's status.
const (
	storageS3    = "s3"
	storageLocal = "local"
	successful   = "successful"
)

// Failed is the status of a snapshot that could not be taken.
const Failed = "failed"

const (
	// MaxFiles is the number of a cluster's snapshots that get an object: the youngest ones. By default, a distribution
	// keeps five for each server.
	MaxFiles = 500
	// maxMetadata is the largest metadata of an object, in bytes of base64. allMetadata limits the metadata of a
	// cluster together, including the authorities of their storages. The youngest snapshots come first. The spec of a
	// Cluster with all fields takes about 20 KiB.
	maxMetadata = 128 << 10
	allMetadata = 8 << 20
	// maxSpecs is how many different metadata are unpacked to find the restore modes.
	maxSpecs = 100
	// Grace is how long a file must be missing before its object is deleted. A restored cluster has the list of the
	// snapshot's time, until its servers have read their files.
	Grace = 15 * time.Minute
)

// Cluster is the provisioning Cluster of the snapshots.
type Cluster struct {
	Namespace, Name string
	UID             types.UID
}

// Machine is the Cluster API Machine of a node.
type Machine struct {
	Name string
	UID  types.UID
}

// Input is the input of Decide.
type Input struct {
	Cluster Cluster
	// Files are the cluster's list. Complete is false when the list has more; then no file counts as missing.
	Files    []File
	Complete bool
	// Machines are the cluster's Machines, by node name.
	Machines map[string]Machine
	// Have are the ETCDSnapshots with the label of the cluster.
	Have []*rkev1.ETCDSnapshot
	// Now is the time. Missing is since when files are missing, by the names of their entries.
	Now     time.Time
	Missing map[string]time.Time
}

// Decision lists what to do. Each list is sorted by name, and Update has whole objects.
type Decision struct {
	Create, Update, Delete []*rkev1.ETCDSnapshot
	// Missing is Input.Missing of the next decision.
	Missing map[string]time.Time
}

// Empty reports whether there is nothing to do now.
func (d Decision) Empty() bool { return len(d.Create)+len(d.Update)+len(d.Delete) == 0 }

// Decide compares the cluster's list with the existing objects (docs/wire/planner.md#etcdsnapshot-objects). A file on a
// node without a Machine gets no object, because it cannot be restored. An object that it already has stays, and is
// deleted with the Machine.
func Decide(in Input) Decision {
	out := Decision{Missing: map[string]time.Time{}}
	have := out.sortOut(in.Have)
	specs, left := modes{}, allMetadata
	listed := map[string]bool{}
	for _, file := range in.Files[:min(len(in.Files), MaxFiles)] {
		if listed[file.Name] {
			continue
		}
		listed[file.Name] = true
		metadata := file.Metadata
		if len(metadata) > left {
			metadata = ""
		}
		cost := len(metadata)
		if file.S3 != nil {
			cost += len(file.S3.EndpointCA)
		}
		want, ok := desired(in, file, metadata, specs)
		if found := have[file.Name]; !ok || cost > left {
			continue
		} else if left -= cost; found == nil {
			out.Create = append(out.Create, want)
		} else if changed := merged(found, want); found.DeletionTimestamp == nil && !equality.Semantic.DeepEqual(
			changed, found) {
			out.Update = append(out.Update, changed)
		}
	}
	maps.DeleteFunc(have, func(name string, s *rkev1.ETCDSnapshot) bool {
		return listed[name] || s.DeletionTimestamp != nil
	})
	out.goes(in, have, len(listed))
	for _, list := range [][]*rkev1.ETCDSnapshot{out.Create, out.Update, out.Delete} {
		slices.SortFunc(list, byName)
	}
	return out
}

// sortOut returns the objects that come from lists, by the names of their entries. Of two objects for one entry, the
// one with the later name is deleted.
func (d *Decision) sortOut(objects []*rkev1.ETCDSnapshot) map[string]*rkev1.ETCDSnapshot {
	have := map[string]*rkev1.ETCDSnapshot{}
	for _, snapshot := range slices.SortedFunc(slices.Values(objects), func(a, b *rkev1.ETCDSnapshot) int {
		if going := a.DeletionTimestamp != nil; going != (b.DeletionTimestamp != nil) {
			return map[bool]int{true: 1, false: -1}[going]
		}
		return byName(a, b)
	}) {
		of := snapshot.Annotations[rkev1.SnapshotNameAnnotation]
		switch {
		case of == "":
		case have[of] == nil:
			have[of] = snapshot
		case snapshot.DeletionTimestamp == nil:
			d.Delete = append(d.Delete, snapshot)
		}
	}
	return have
}

// goes decides about objects whose files are not listed. others is the number of the other objects. With an incomplete
// list no file counts as missing. The number of objects is limited, whatever a cluster lists.
func (d *Decision) goes(in Input, unlisted map[string]*rkev1.ETCDSnapshot, others int) {
	oldest := slices.SortedFunc(maps.Values(unlisted), func(a, b *rkev1.ETCDSnapshot) int {
		return cmp.Or(cmp.Compare(seconds(a.SnapshotFile.CreatedAt), seconds(b.SnapshotFile.CreatedAt)), byName(a, b))
	})
	limit := MaxFiles
	if in.Complete {
		limit *= 2 // while servers may still be reading their files
	}
	tooMany := len(oldest) + others - limit
	for i, s := range oldest {
		name := s.Annotations[rkev1.SnapshotNameAnnotation]
		since, known := in.Missing[name]
		if !known {
			since = in.Now
		}
		if in.Complete {
			d.Missing[name] = since
		}
		if i < tooMany || in.Complete && in.Now.Sub(since) >= Grace {
			d.Delete = append(d.Delete, s)
		}
	}
}

func byName(a, b *rkev1.ETCDSnapshot) int { return strings.Compare(a.Name, b.Name) }

// youngest returns the MaxFiles youngest files. Files without a time are dropped first.
func youngest(files map[string]File) []File {
	sorted := slices.SortedFunc(maps.Values(files), func(a, b File) int {
		return cmp.Or(cmp.Compare(seconds(b.CreatedAt), seconds(a.CreatedAt)), strings.Compare(a.Name, b.Name))
	})
	return sorted[:min(len(sorted), MaxFiles)]
}

// seconds returns seconds since 1970, 0 for an unknown time.
func seconds(at *metav1.Time) int64 {
	if at == nil {
		return 0
	}
	return at.Unix()
}

// desired returns the object of a file, or false when the file gets none.
func desired(in Input, file File, metadata string, specs modes) (*rkev1.ETCDSnapshot, bool) {
	storage, owner := storageLocal, metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	if file.S3 != nil {
		// An object for S3 outlives the machine that made the snapshot.
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
			Name: naming.ETCDSnapshot(in.Cluster.Name, storage, file.SnapshotName, file.NodeName, file.Location,
				seconds(file.CreatedAt)),
			Labels: map[string]string{rkev1.ClusterNameLabel: in.Cluster.Name},
			Annotations: map[string]string{
				rkev1.SnapshotNameAnnotation: file.Name, rkev1.SnapshotFileNameAnnotation: file.SnapshotName,
				rkev1.SnapshotStorageAnnotation: storage,
			},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: rkev1.ETCDSnapshotSpec{ClusterName: in.Cluster.Name},
		SnapshotFile: rkev1.ETCDSnapshotFile{
			Name: file.SnapshotName, NodeName: file.NodeName, Location: file.Location, Metadata: metadata,
			CreatedAt: file.CreatedAt,
			Size:      file.Size, S3: file.S3.DeepCopy(), Status: Failed, Message: file.Message,
		},
	}
	if storage == storageLocal && len(validation.IsValidLabelValue(file.NodeName)) == 0 {
		out.Labels[rkev1.NodeNameLabel] = file.NodeName
	}
	if file.Successful {
		out.SnapshotFile.Status = successful
	}
	out.Annotations[rkev1.SnapshotRestoreModesAnnotation] = specs.of(metadata)
	return out, true
}

// modes maps metadata to the restore modes that they permit. Most snapshots have the same metadata.
type modes map[string]string

func (m modes) of(metadata string) string {
	known, ok := m[metadata]
	if !ok && len(m) < maxSpecs {
		known = strings.Join(restoreModes(metadata), ",")
		m[metadata] = known
	}
	return cmp.Or(known, string(rkev1.RestoreModeNone))
}

// restoreModes returns the modes that metadata permit.
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

// merged returns found with the content of want. It keeps the labels and annotations of other programs. It also keeps
// the credential, which lists never contain: users set it for a storage that is no longer the cluster's.
func merged(found, want *rkev1.ETCDSnapshot) *rkev1.ETCDSnapshot {
	out, want := found.DeepCopy(), want.DeepCopy()
	if found.SnapshotFile.S3 != nil && want.SnapshotFile.S3 != nil {
		want.SnapshotFile.S3.CloudCredentialName = found.SnapshotFile.S3.CloudCredentialName
	}
	out.Labels, out.Annotations = labels.Merge(out.Labels, want.Labels), labels.Merge(out.Annotations, want.Annotations)
	out.OwnerReferences, out.Spec, out.SnapshotFile = want.OwnerReferences, want.Spec, want.SnapshotFile
	return out
}
