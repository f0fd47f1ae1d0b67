package restoredspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Remedy is in each message about a snapshot whose configuration cannot be restored.
const Remedy = "choose another snapshot, or set restoreRKEConfig to none to restore only data"

// Wanted returns the request of a Cluster for a restore with configuration, nil when it has none. The mode may be
// unknown.
func Wanted(cluster *provv1.Cluster) *rkev1.ETCDSnapshotRestore {
	if cluster == nil || cluster.Spec.RKEConfig == nil {
		return nil
	}
	if request := cluster.Spec.RKEConfig.ETCDSnapshotRestore; Configures(request) {
		return request
	}
	return nil
}

// Configures reports whether a request asks for more than data.
func Configures(request *rkev1.ETCDSnapshotRestore) bool {
	return request != nil && request.Name != "" && request.RestoreRKEConfig != "" &&
		request.RestoreRKEConfig != rkev1.RestoreModeNone
}

// Pending returns the request whose configuration must be restored now, nil when there is none. Each request is acted
// on once: when the control plane has it, a later change of the fields of the Cluster has the last word. A cluster
// without a control plane has nothing to restore.
func Pending(cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane) *rkev1.ETCDSnapshotRestore {
	wanted := Wanted(cluster)
	if wanted == nil || controlPlane == nil {
		return nil
	}
	for _, known := range []*rkev1.ETCDSnapshotRestore{
		controlPlane.Spec.ETCDSnapshotRestore, controlPlane.Status.ETCDSnapshotRestore,
	} {
		if known != nil && *known == *wanted {
			return nil
		}
	}
	return wanted
}

// Result is a Cluster with the configuration of a snapshot.
type Result struct {
	// Cluster is a copy of the Cluster with the restored fields.
	Cluster *provv1.Cluster
	// Changes are what has changed in it.
	Changes []Change
	// fields are the values of the fields that differ, as in Fields.
	fields []operation
	// manifest is the spec of Manifest.
	manifest map[string]any
	// from is the Cluster without the changes.
	from *provv1.Cluster
}

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Restore returns the Cluster with the fields of a snapshot that its request asks for. The snapshot is nil when it does
// not exist. A Cluster without such a request stays unchanged.
func Restore(cluster *provv1.Cluster, snapshot *rkev1.ETCDSnapshot) (Result, field.ErrorList) {
	result := Result{Cluster: cluster, from: cluster}
	wanted := Wanted(cluster)
	if wanted == nil {
		return result, nil
	}
	at := field.NewPath("spec", "rkeConfig", "etcdSnapshotRestore")
	mode := wanted.RestoreRKEConfig
	switch {
	case Fields(mode) == nil:
		return result, field.ErrorList{field.NotSupported(at.Child("restoreRKEConfig"), mode,
			[]rkev1.RestoreMode{rkev1.RestoreModeNone, rkev1.RestoreModeKubernetesVersion, rkev1.RestoreModeAll})}
	case snapshot == nil:
		missing := field.NotFound(at.Child("name"), wanted.Name)
		missing.Detail = "no ETCDSnapshot of namespace " + cluster.Namespace + " has that name: " + Remedy
		return result, field.ErrorList{missing}
	}
	refuse := func(problem string) (Result, field.ErrorList) {
		return Result{Cluster: cluster, from: cluster},
			field.ErrorList{field.Invalid(at.Child("name"), wanted.Name, problem+": "+Remedy)}
	}
	if problem := unusable(cluster, snapshot, mode); problem != "" {
		return refuse(problem)
	}
	spec, err := specOf(snapshot, mode)
	if err == nil {
		err = result.apply(spec, mode)
	}
	if err != nil {
		return refuse(err.Error())
	}
	if added := tenancy.NewReferences(cluster, result.Cluster); len(added) > 0 {
		return refuse(fmt.Sprintf("its configuration refers to Secret %s of another namespace, which the Cluster does "+
			"not use now: a user who may get the Secret must first write %s", added[0].NamespacedName, added[0].Field))
	}
	return result, nil
}

// unusable says why a snapshot has no configuration for the cluster.
func unusable(cluster *provv1.Cluster, snapshot *rkev1.ETCDSnapshot, mode rkev1.RestoreMode) string {
	version, hasConfig, err := topology.DescribeSnapshot(snapshot.SnapshotFile.Metadata)
	owner := cmp.Or(snapshot.Spec.ClusterName, snapshot.Labels[rkev1.ClusterNameLabel])
	now := cluster.Spec.KubernetesVersion
	switch {
	case owner != "" && owner != cluster.Name:
		return "the snapshot is of cluster " + owner
	case snapshot.SnapshotFile.Status == snapshots.Failed:
		return "the snapshot was not taken"
	case err != nil:
		return err.Error()
	case version == "":
		return "the snapshot does not contain the Kubernetes version of its cluster"
	case mode == rkev1.RestoreModeAll && !hasConfig:
		return "the snapshot does not contain the rkeConfig of its cluster"
	case !isVersion(version):
		return "the snapshot contains a Kubernetes version that is none"
	case now != "" && distro.RuntimeOf(now) != distro.RuntimeOf(version):
		return fmt.Sprintf("the snapshot is of %s, and the cluster is one of %s", distro.RuntimeOf(version),
			distro.RuntimeOf(now))
	}
	return ""
}

func isVersion(version string) bool {
	number, hasPrefix := strings.CutPrefix(version, "v")
	_, err := semver.StrictNewVersion(number)
	return err == nil && hasPrefix
}

// specOf returns the spec in a snapshot, as far as the mode needs it. The version can be restored from a spec that is
// in an unknown format otherwise.
func specOf(snapshot *rkev1.ETCDSnapshot, mode rkev1.RestoreMode) (*provv1.ClusterSpec, error) {
	if mode == rkev1.RestoreModeKubernetesVersion {
		version, err := topology.VersionOfSnapshot(snapshot.SnapshotFile.Metadata)
		return &provv1.ClusterSpec{KubernetesVersion: version}, err
	}
	return topology.SpecOfSnapshot(snapshot.SnapshotFile.Metadata)
}

// apply sets the fields of a spec in the Cluster.
func (r *Result) apply(spec *provv1.ClusterSpec, mode rkev1.RestoreMode) error {
	var err error
	if r.Changes, err = Differences(&r.from.Spec, spec, mode); err != nil {
		return err
	}
	was, err := plain(&r.from.Spec)
	if err != nil {
		return err
	}
	is, err := plain(spec)
	if err != nil {
		return err
	}
	r.manifest = map[string]any{}
	for _, path := range Fields(mode) {
		before, after := value(was, path), value(is, path)
		if before != nil || after != nil {
			set(r.manifest, path, after)
		}
		if reflect.DeepEqual(before, after) {
			continue
		}
		change := operation{Op: "add", Path: "/spec/" + strings.Join(path, "/"), Value: after}
		if after == nil {
			change.Op = "remove"
		}
		set(was, path, after)
		r.fields = append(r.fields, change)
	}
	if len(r.fields) == 0 {
		return nil
	}
	data, err := json.Marshal(was)
	if err != nil {
		return fmt.Errorf("encode the restored spec: %w", err)
	}
	r.Cluster = r.from.DeepCopy()
	r.Cluster.Spec = provv1.ClusterSpec{}
	if err := json.Unmarshal(data, &r.Cluster.Spec); err != nil {
		return fmt.Errorf("decode the restored spec: %w", err)
	}
	return nil
}

// set writes a value into a spec.
func set(spec map[string]any, path []string, value any) {
	at := spec
	for _, key := range path[:len(path)-1] {
		next, _ := at[key].(map[string]any)
		if next == nil {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
}

// Patch returns the JSON patch that restores the fields of the Cluster in one write, nil when nothing changes. It
// leaves all other fields as the user wrote them, and fails when the Cluster has changed since.
func (r *Result) Patch() ([]byte, error) {
	if len(r.fields) == 0 {
		return nil, nil
	}
	operations := append([]operation{{"add", "/metadata/resourceVersion", r.from.ResourceVersion}}, r.fields...)
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode patch of cluster %s/%s: %w", r.from.Namespace, r.from.Name, err)
	}
	return patch, nil
}

// Manifest returns the part of the Cluster's manifest that the mode puts back, as plain values, whether it has changed
// or not. A field that goes away is null. It contains the values as they are, including secrets.
func (r *Result) Manifest() map[string]any {
	return map[string]any{
		"apiVersion": provv1.SchemeGroupVersion.String(), "kind": "Cluster",
		"metadata": map[string]any{"namespace": r.from.Namespace, "name": r.from.Name}, "spec": r.manifest,
	}
}

// Problem says why the configuration that a control plane was made with is not that of the snapshot that it is to
// restore, empty when it is. Then another user or program has changed the Cluster since the configuration was restored.
// The snapshot is nil when it does not exist.
func Problem(controlPlane *rkev1.RKEControlPlane, snapshot *rkev1.ETCDSnapshot) string {
	request := controlPlane.Spec.ETCDSnapshotRestore
	if !Configures(request) {
		return ""
	}
	mode := request.RestoreRKEConfig
	if snapshot == nil || Fields(mode) == nil {
		return fmt.Sprintf("the configuration of snapshot %s cannot be restored: it does not exist, or mode %s is "+
			"unknown", request.Name, mode)
	}
	is, err := topology.SpecOfControlPlane(controlPlane.Annotations[rkev1.ClusterSpecAnnotation])
	if err != nil {
		return err.Error()
	}
	wanted, err := specOf(snapshot, mode)
	if err != nil {
		return err.Error()
	}
	if wanted == nil {
		return "snapshot " + request.Name + " does not contain the spec of its cluster"
	}
	differ, err := Differences(is, wanted, mode)
	switch {
	case err != nil:
		return err.Error()
	case len(differ) > 0:
		return fmt.Sprintf("another user or program has changed what was restored from snapshot %s: %s", request.Name,
			Listed(differ))
	}
	return ""
}

// mostListed is how many fields a message names.
const mostListed = 10

// Listed names changed fields in a message. The values of fields may be secrets, except for the version.
func Listed(changes []Change) string {
	var names []string
	for i, change := range changes {
		if i == mostListed {
			names = append(names, fmt.Sprintf("and %d more", len(changes)-i))
			break
		}
		name := change.Field
		if name == "spec."+fieldVersion {
			before, after := change.Shown()
			name += " (" + before + " → " + after + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
