package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// InvalidError lists the problems of an edited cluster, as the server would report them.
type InvalidError struct{ Problems field.ErrorList }

// Error returns one line for each field.
func (e *InvalidError) Error() string {
	lines := []string{"the Cluster in the file is not valid:"}
	for _, problem := range e.Problems {
		lines = append(lines, "  "+problem.Error())
	}
	return strings.Join(lines, "\n")
}

// ErrNotProvisioned says that an edited cluster has no machines that Drover changes.
var ErrNotProvisioned = errors.New("the Cluster in the file has no spec.rkeConfig, so Drover provisions nothing for it")

// unnamed stands for the name of a management Cluster that does not exist yet.
const unnamed = "c-m-preview"

// Preview returns what applying the file would do to the machines of its cluster.
func (r *Reader) Preview(file File) (preview.Report, error) {
	name := file.Cluster.Name
	live, err := r.Cluster(name)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return preview.Report{}, err
	}
	if live != nil && live.DeletionTimestamp != nil {
		return preview.Report{}, fmt.Errorf("cluster %s/%s is being deleted: edits have no effect", r.namespace, name)
	}
	controlPlane, err := r.controlPlane(name)
	if err != nil {
		return preview.Report{}, err
	}
	unknown := r.learn(live)
	in, err := r.inputs(file, live, controlPlane)
	if err != nil {
		return preview.Report{}, err
	}
	report, err := preview.Compute(in)
	if unknown != "" {
		report.Notes = append(report.Notes, "the settings are not the server's; "+unknown)
	}
	for _, ignored := range file.Ignored {
		report.Notes = append(report.Notes, ignored+" in the file is ignored")
	}
	return report, err
}

func (r *Reader) inputs(file File, live *provv1.Cluster, controlPlane *rkev1.RKEControlPlane) (preview.Input, error) {
	out := preview.Input{Release: r.opts.Releases.Release, Machines: map[string]preview.MachineFacts{}}
	if live != nil {
		if live.Status.ClusterName == "" {
			live = live.DeepCopy()
			live.Status.ClusterName = unnamed
		}
		before, err := r.desired.Input(live)
		if err != nil {
			return out, err
		}
		out.Before = &before
	}
	var err error
	if out.After, out.Restored, err = r.edited(file, live, out.Before, controlPlane); err != nil {
		return out, err
	}
	if problems := problemsOf(out, controlPlane != nil); len(problems) > 0 {
		return out, &InvalidError{problems}
	}
	if out.After.Cluster.Spec.RKEConfig == nil {
		return out, ErrNotProvisioned
	}
	if controlPlane == nil {
		return out, nil
	}
	return out, r.gather(&out, controlPlane)
}

// problemsOf returns the problems of the edited cluster: those that the server would find, and those that admission
// would refuse as new.
func problemsOf(in preview.Input, provisioned bool) field.ErrorList {
	problems, told := provisioningcluster.Problems(in.After, provisioned)
	if in.Before == nil || len(told) == 0 {
		return append(problems, told...)
	}
	_, before := provisioningcluster.Problems(*in.Before, provisioned)
	news, _ := topology.News(topology.Wrong{Cluster: in.Before.Cluster, Errors: before},
		topology.Wrong{Cluster: in.After.Cluster, Errors: told})
	return append(problems, news...)
}

// gather reads the live snapshot and the additional objects that the edited configuration names.
func (r *Reader) gather(out *preview.Input, controlPlane *rkev1.RKEControlPlane) error {
	edited, err := preview.ControlPlane(out.After)
	if err != nil {
		return fmt.Errorf("plan the edited cluster: %w", err)
	}
	if out.Snapshot, err = r.planner.Snapshot(requesting(controlPlane, edited)); err != nil {
		return err
	}
	more, err := r.planner.Objects(edited)
	if err != nil {
		return err
	}
	secret, err := topology.PodSecuritySecret(out.After)
	if err != nil {
		return err
	}
	if secret != nil { // the server writes it before the control plane
		more = append(more, planner.Object{Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name,
			Type: secret.Type, Annotations: secret.Annotations, Data: secret.Data})
	}
	for _, object := range more {
		known := func(o planner.Object) bool {
			return o.Kind == object.Kind && o.Namespace == object.Namespace && o.Name == object.Name
		}
		if !slices.ContainsFunc(out.Snapshot.Objects, known) {
			out.Snapshot.Objects = append(out.Snapshot.Objects, object)
		}
	}
	machines, err := r.plans.Machines.Cache().List(r.namespace, labels.Everything())
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for _, m := range machines {
		out.Machines[m.Name] = preview.FactsOf(m)
	}
	return nil
}

// requesting returns a control plane with the restore that the edited one requests. Its snapshot is looked up, and
// compared with the edited configuration. All records of the planner stay.
func requesting(controlPlane, edited *rkev1.RKEControlPlane) *rkev1.RKEControlPlane {
	out := controlPlane.DeepCopy()
	out.Spec.ETCDSnapshotRestore = edited.Spec.ETCDSnapshotRestore
	if spec, ok := edited.Annotations[rkev1.ClusterSpecAnnotation]; ok {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, rkev1.ClusterSpecAnnotation, spec)
	}
	return out
}

// edited returns the cluster as it would be after the file was applied.
func (r *Reader) edited(file File, live *provv1.Cluster, before *topology.Input, controlPlane *rkev1.RKEControlPlane,
) (topology.Input, []preview.Restored, error) {
	cluster := file.Cluster.DeepCopy()
	cluster.Namespace = r.namespace
	cluster.Status.ClusterName = unnamed
	switch {
	case live == nil:
	case file.IsWhole:
		cluster.ObjectMeta, cluster.Status = *live.ObjectMeta.DeepCopy(), *live.Status.DeepCopy()
		cluster.Labels, cluster.Annotations = file.Cluster.Labels, file.Cluster.Annotations
	default:
		cluster = merge(live, file.Cluster)
	}
	cluster, restored, err := r.restored(cluster, controlPlane)
	if err != nil {
		return topology.Input{Cluster: cluster}, nil, err
	}
	deps := r.topology
	kinds, _ := deps.DynamicKinds.(machineConfigs)
	kinds.edited = file.MachineConfigs
	deps.DynamicKinds = kinds
	for key, config := range kinds.edited {
		config.SetNamespace(r.namespace)
		if before == nil {
			continue
		}
		for ref, was := range before.MachineConfigs {
			if ref.Kind+"/"+ref.Name == key {
				config.SetOwnerReferences(was.GetOwnerReferences())
			}
		}
	}
	in, err := provisioningcluster.NewReader(deps).Input(cluster)
	if err != nil {
		return in, nil, err
	}
	for ref, config := range in.MachineConfigs {
		if schema := in.Schemas[ref.SchemaName()]; schema != nil && kinds.edited[ref.Kind+"/"+ref.Name] != nil {
			in.MachineConfigs[ref] = completed(config, driverschema.ConfigDefaults(*schema))
		}
	}
	return in, restored, nil
}

// completed returns a machine config with the defaults that the API server fills in.
func completed(config *unstructured.Unstructured, defaults map[string]any) *unstructured.Unstructured {
	out := config.DeepCopy()
	for name, value := range defaults {
		if _, given := out.Object[name]; !given {
			out.Object[name] = value
		}
	}
	return out
}

// merge replaces the live spec with the spec of the file. It keeps what the server or an operator writes and the file
// omits: schemas of pools, requests for operations, metadata.
func merge(live, file *provv1.Cluster) *provv1.Cluster {
	out := live.DeepCopy()
	out.Spec = *file.Spec.DeepCopy()
	out.Labels, out.Annotations = labels.Merge(live.Labels, file.Labels),
		labels.Merge(live.Annotations, file.Annotations)
	was, now := live.Spec.RKEConfig, out.Spec.RKEConfig
	if was == nil || now == nil {
		return out
	}
	now.ETCDSnapshotCreate = cmp.Or(now.ETCDSnapshotCreate, was.ETCDSnapshotCreate)
	now.ETCDSnapshotRestore = cmp.Or(now.ETCDSnapshotRestore, was.ETCDSnapshotRestore)
	now.RotateCertificates = cmp.Or(now.RotateCertificates, was.RotateCertificates)
	now.RotateEncryptionKeys = cmp.Or(now.RotateEncryptionKeys, was.RotateEncryptionKeys)
	for i := range now.MachinePools {
		keepSchema(&now.MachinePools[i], was.MachinePools)
	}
	return out
}

// keepSchema copies the server's copy of the driver's schema to a pool.
func keepSchema(pool *provv1.RKEMachinePool, live []provv1.RKEMachinePool) {
	for i := range live {
		old := &live[i]
		sameKind := old.NodeConfig != nil && pool.NodeConfig != nil && old.NodeConfig.Kind == pool.NodeConfig.Kind
		if old.Name == pool.Name && sameKind && pool.DynamicSchemaSpec == "" {
			pool.DynamicSchemaSpec = old.DynamicSchemaSpec
		}
	}
}
