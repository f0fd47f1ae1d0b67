package planner

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// restoreNames returns the snapshots that a control plane's restores name: the requested one, and the current or
// finished one.
func restoreNames(cp *rkev1.RKEControlPlane) []string {
	var names []string
	for _, restore := range []*rkev1.ETCDSnapshotRestore{cp.Spec.ETCDSnapshotRestore, cp.Status.ETCDSnapshotRestore} {
		if restore != nil && restore.Name != "" && (len(names) == 0 || names[0] != restore.Name) {
			names = append(names, restore.Name)
		}
	}
	return names
}

// gatherSnapshots finds the snapshots that restores name. A name without an object is a file name, which the planner
// checks.
func (h *handler) gatherSnapshots(cp *rkev1.RKEControlPlane, v *view) error {
	asked := cp.Spec.ETCDSnapshotRestore
	for _, name := range restoreNames(cp) {
		snapshot, err := h.Snapshots.Cache().Get(cp.Namespace, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the etcd snapshot %s: %w", name, err)
		}
		decoded := h.decoded.Of(snapshot.Namespace+"/"+snapshot.Name, snapshot)
		decoded.MachineUID = v.uidOf(decoded.MachineUID)
		if asked != nil && asked.Name == name && isFirstPart(cp) {
			decoded.ConfigurationProblem = restoredspec.Problem(cp, snapshot)
		}
		v.snapshot.Snapshots = append(v.snapshot.Snapshots, decoded)
	}
	return nil
}

// isFirstPart reports that the requested restore has not begun or still checks what it needs. Later, the configuration
// of the control plane is as the user wants it.
func isFirstPart(cp *rkev1.RKEControlPlane) bool {
	asked, last, phase := cp.Spec.ETCDSnapshotRestore, cp.Status.ETCDSnapshotRestore, cp.Status.ETCDSnapshotRestorePhase
	return last == nil || *last != *asked || phase == "" || phase == rkev1.ETCDSnapshotPhaseStarted
}

func decodeSnapshot(snapshot *rkev1.ETCDSnapshot) planner.ETCDSnapshot {
	file := &snapshot.SnapshotFile
	out := planner.ETCDSnapshot{
		Name: snapshot.Name, Cluster: snapshot.Spec.ClusterName, File: file.Name, S3: file.S3.DeepCopy(),
		Failed: file.Status == snapshots.Failed, Message: firstLine(file.Message),
	}
	if out.Cluster == "" {
		out.Cluster = snapshot.Labels[rkev1.ClusterNameLabel]
	}
	if out.S3 == nil {
		out.MachineUID, out.Folder = machineUID(snapshot), folderOf(file)
	} else {
		out.Size = max(0, file.Size)
	}
	if version, err := topology.VersionOfSnapshot(file.Metadata); err == nil {
		out.KubernetesVersion = version // an unreadable version counts as unknown
	}
	return out
}

// folderOf returns the folder of a snapshot's file on its machine, "" if its location does not say. The distribution's
// configuration may have moved it since.
func folderOf(file *rkev1.ETCDSnapshotFile) string {
	location, isFile := strings.CutPrefix(file.Location, "file://")
	if !isFile || !path.IsAbs(location) || path.Clean(location) != location || path.Base(location) != file.Name {
		return ""
	}
	return path.Dir(location)
}

// machineUID returns the UID of the Machine that owns a snapshot, for any version of Cluster API in the owner
// reference.
func machineUID(snapshot *rkev1.ETCDSnapshot) types.UID {
	for _, owner := range snapshot.OwnerReferences {
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
		if kind == clusterv1.GroupVersion.WithKind("Machine").GroupKind() {
			return owner.UID
		}
	}
	return ""
}

// uidOf translates the UID of an owning Machine into the UID that the planner uses.
func (v *view) uidOf(owner types.UID) types.UID {
	for _, machine := range v.machines {
		if owner != "" && machine.UID == owner {
			return planstore.UID(machine)
		}
	}
	return owner
}

// snapshotReferences returns the credentials of the snapshots' own storages. It omits snapshots of other clusters,
// because they are refused anyway.
func snapshotReferences(cp *rkev1.RKEControlPlane, snapshots []planner.ETCDSnapshot) []render.Reference {
	var refs []render.Reference
	for _, snapshot := range snapshots {
		if snapshot.Cluster == "" || snapshot.Cluster == cp.Spec.ClusterName {
			refs = append(refs, render.StorageReferences(cp.Namespace, snapshot.S3)...)
		}
	}
	return refs
}

// bySnapshot wakes the control planes with a restore of a snapshot. Other snapshots are frequent and wake no control
// plane.
func (h *handler) bySnapshot(snapshot *rkev1.ETCDSnapshot) []wakeup.Key {
	return wakeup.ByIndex[*rkev1.ETCDSnapshot](h.ControlPlanes.Cache(), indexControlPlanesBySnapshot,
		func(s *rkev1.ETCDSnapshot) string { return s.Namespace + "/" + s.Name })(snapshot)
}

// bySnapshotCredential wakes the control planes with a restore of a snapshot whose credential is the Secret.
func (h *handler) bySnapshotCredential(secret *corev1.Secret) []wakeup.Key {
	snapshots, err := h.Snapshots.Cache().GetByIndex(indexSnapshotsByObject,
		keyOf(render.KindSecret, secret.Namespace, secret.Name))
	if err != nil {
		return nil
	}
	var keys []wakeup.Key
	for _, snapshot := range snapshots {
		keys = append(keys, h.bySnapshot(snapshot)...)
	}
	return keys
}
