package topology

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	defaultOS  = "linux"
	roleMarked = rkev1.RoleLabelValue
)

// poolObjects returns the objects of one machine pool.
func poolObjects(in Input, pool *provv1.RKEMachinePool, ownInfra bool) ([]runtime.Object, error) {
	ref, ours := configRef(pool)
	var objects []runtime.Object
	hints := capacity(pool, nil)
	infraRef := clusterv1.ContractVersionedObjectReference{APIGroup: ref.GVK().Group, Kind: ref.Kind, Name: ref.Name}
	if ours {
		template, err := machineTemplate(in, pool, ref)
		if err != nil {
			return nil, err
		}
		objects = append(objects, template)
		hints = capacity(pool, template)
		infraRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: machineGroup, Kind: template.GetKind(), Name: template.GetName(),
		}
	}
	bootstrapName := naming.BootstrapTemplate(in.Cluster.Name)
	if !ownInfra {
		template := poolBootstrapTemplate(in.Cluster, pool)
		objects = append(objects, template)
		bootstrapName = template.Name
	}
	deployment, err := machineDeployment(in, pool, infraRef, bootstrapName)
	if err != nil {
		return nil, err
	}
	deployment.Annotations = merged(hints, deployment.Annotations)
	objects = append(objects, deployment)
	if check := machineHealthCheck(in, pool); check != nil {
		objects = append(objects, check)
	}
	return objects, nil
}

func machineDeployment(
	in Input, pool *provv1.RKEMachinePool, infraRef clusterv1.ContractVersionedObjectReference, bootstrapName string,
) (*clusterv1.MachineDeployment, error) {
	name := naming.MachineDeployment(in.Cluster.Name, pool.Name)
	templateMeta, err := machineMeta(in.Cluster, pool, name)
	if err != nil {
		return nil, err
	}
	paused := pool.Paused
	object := &clusterv1.MachineDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment"},
		ObjectMeta: objectMeta(in.Cluster, name),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: in.Cluster.Name,
			Replicas:    replicas(in, pool, name),
			Rollout:     clusterv1.MachineDeploymentRolloutSpec{Strategy: strategy(pool)},
			Selector:    metav1.LabelSelector{MatchLabels: selector(in.Cluster, name)},
			Deletion:    clusterv1.MachineDeploymentDeletionSpec{Order: clusterv1.OldestMachineSetDeletionOrder},
			Paused:      &paused,
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: templateMeta,
				Spec: clusterv1.MachineSpec{
					ClusterName:       in.Cluster.Name,
					InfrastructureRef: infraRef,
					Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: rkeGroup, Kind: "RKEBootstrapTemplate", Name: bootstrapName,
					}},
					Deletion: clusterv1.MachineDeletionSpec{
						NodeDrainTimeoutSeconds:    seconds(pool.DrainBeforeDeleteTimeout),
						NodeDeletionTimeoutSeconds: nodeDeletionTimeout(pool),
					},
				},
			},
		},
	}
	object.Labels = merged(pool.Labels, pool.MachineDeploymentLabels,
		map[string]string{rkev1.CattleOSLabel: machineOS(pool)})
	object.Annotations = merged(pool.MachineDeploymentAnnotations, autoscalerSizes(pool))
	return object, nil
}

// selector is what Cluster API's defaulting webhook would choose.
func selector(cluster *provv1.Cluster, deployment string) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:           cluster.Name,
		clusterv1.MachineDeploymentNameLabel: deployment,
	}
}

// strategy replaces machines one at a time, the new one first, unless the pool sets limits. It sets all fields, because
// the defaulting webhook may be absent.
func strategy(pool *provv1.RKEMachinePool) clusterv1.MachineDeploymentRolloutStrategy {
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if limits := pool.RollingUpdate; limits != nil {
		if limits.MaxSurge != nil {
			surge = *limits.MaxSurge
		}
		if limits.MaxUnavailable != nil {
			unavailable = *limits.MaxUnavailable
		}
	}
	return clusterv1.MachineDeploymentRolloutStrategy{
		Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
			MaxSurge: &surge, MaxUnavailable: &unavailable,
		},
	}
}

const (
	// nodeDeletionTime is how long the deletion of a machine may take before Cluster API gives up its Node, without the
	// drain. In that time the etcd member leaves and the host is removed. If the cluster was reached through that host,
	// the connection moves to another server.
	nodeDeletionTime = 10 * time.Minute
	// openEndedDrain is the time for a drain without its own limit.
	openEndedDrain = time.Hour
)

// nodeDeletionTimeout keeps Cluster API from giving up a machine's Node too soon. Cluster API's default of ten seconds
// counts from the beginning of the deletion, and ends before the host is gone. A Node that was given up stays forever.
// There is a limit, because the cluster may never answer again, and until then no other machine replaces this one.
// Changing the limit replaces no machine. When the whole cluster is deleted, Cluster API does not wait for Nodes.
// (docs/wire/capi.md#pools.)
func nodeDeletionTimeout(pool *provv1.RKEMachinePool) *int32 {
	limit := nodeDeletionTime
	if pool.DrainBeforeDelete {
		drain := openEndedDrain
		if own := pool.DrainBeforeDeleteTimeout; own != nil && own.Duration > 0 {
			drain = own.Duration
		}
		limit += min(drain, math.MaxInt64-limit)
	}
	return seconds(&metav1.Duration{Duration: limit})
}

// replicas is the pool's quantity, unless an autoscaler or the user scales the MachineDeployment. Then the current size
// is kept within the autoscaler's limits, so that applying never undoes a scaling. A new pool starts with its quantity
// or one machine. (docs/wire/capi.md#pools.)
func replicas(in Input, pool *provv1.RKEMachinePool, deployment string) *int32 {
	wanted := quantity(pool)
	if current, exists := in.Replicas[deployment]; exists && isSizedByOthers(pool) {
		wanted = current
	}
	if Autoscaled(pool) {
		wanted = min(max(wanted, *pool.AutoscalingMinSize), *pool.AutoscalingMaxSize)
	}
	return &wanted
}

// isSizedByOthers reports whether an autoscaler or the user sets the size of a pool's MachineDeployment.
func isSizedByOthers(pool *provv1.RKEMachinePool) bool {
	return pool.Quantity == nil || Autoscaled(pool)
}

// Sized returns the names of the MachineDeployments whose size an autoscaler or the user sets. The present size of each
// is its desired size, and Drover does not write it.
func Sized(in Input) []string {
	var names []string
	for i := range pools(in.Cluster) {
		pool := &pools(in.Cluster)[i]
		name := naming.MachineDeployment(in.Cluster.Name, pool.Name)
		current, exists := in.Replicas[name]
		if exists && isSizedByOthers(pool) && *replicas(in, pool, name) == current {
			names = append(names, name)
		}
	}
	return names
}

// Wanted is the number of machines that a pool requests. Of a pool that an autoscaler sizes, it is the lowest.
func Wanted(pool *provv1.RKEMachinePool) int32 { return *replicas(Input{}, pool, "") }

func quantity(pool *provv1.RKEMachinePool) int32 {
	if pool.Quantity == nil {
		return 1
	}
	return *pool.Quantity
}

// machineMeta are the labels and annotations of every machine of the pool. The planner reads roles and identity from
// the labels, so they override the user's labels.
func machineMeta(cluster *provv1.Cluster, pool *provv1.RKEMachinePool, deployment string) (clusterv1.ObjectMeta,
	error) {
	annotations := map[string]string{}
	if !pool.DrainBeforeDelete {
		annotations[clusterv1.ExcludeNodeDrainingAnnotation] = "true"
	}
	if limit := hostnameLimit(cluster, pool); limit != 0 {
		annotations[rkev1.HostnameLengthLimitAnnotation] = strconv.Itoa(limit)
	}
	if len(pool.Labels) > 0 {
		encoded, err := json.Marshal(pool.Labels)
		if err != nil {
			return clusterv1.ObjectMeta{}, fmt.Errorf("encode labels: %w", err)
		}
		annotations[rkev1.LabelsAnnotation] = string(encoded)
	}
	if len(pool.Taints) > 0 {
		encoded, err := json.Marshal(pool.Taints)
		if err != nil {
			return clusterv1.ObjectMeta{}, fmt.Errorf("encode taints: %w", err)
		}
		annotations[rkev1.TaintsAnnotation] = string(encoded)
	}
	return clusterv1.ObjectMeta{
		Labels:      merged(pool.Labels, machineLabels(cluster, pool, deployment)),
		Annotations: merged(annotations),
	}, nil
}

func machineLabels(cluster *provv1.Cluster, pool *provv1.RKEMachinePool, deployment string) map[string]string {
	labels := map[string]string{
		clusterv1.ClusterNameLabel:           cluster.Name,
		clusterv1.MachineDeploymentNameLabel: deployment,
		rkev1.ClusterNameLabel:               cluster.Name,
		rkev1.MachinePoolNameLabel:           pool.Name,
		rkev1.CattleOSLabel:                  machineOS(pool),
	}
	if pool.EtcdRole {
		labels[rkev1.EtcdRoleLabel] = roleMarked
	}
	if pool.ControlPlaneRole {
		labels[rkev1.ControlPlaneRoleLabel] = roleMarked
		labels[clusterv1.MachineControlPlaneLabel] = roleMarked
	}
	if pool.WorkerRole {
		labels[rkev1.WorkerRoleLabel] = roleMarked
	}
	return labels
}

func autoscalerSizes(pool *provv1.RKEMachinePool) map[string]string {
	sizes := map[string]string{}
	if pool.AutoscalingMinSize != nil {
		sizes[clusterv1.AutoscalerMinSizeAnnotation] = strconv.FormatInt(int64(*pool.AutoscalingMinSize), 10)
	}
	if pool.AutoscalingMaxSize != nil {
		sizes[clusterv1.AutoscalerMaxSizeAnnotation] = strconv.FormatInt(int64(*pool.AutoscalingMaxSize), 10)
	}
	return sizes
}

// hostnameLimit is the pool's limit if it is valid, else the cluster's, else 0 for none.
func hostnameLimit(cluster *provv1.Cluster, pool *provv1.RKEMachinePool) int {
	for _, limit := range []int{pool.HostnameLengthLimit,
		cluster.Spec.RKEConfig.MachinePoolDefaults.HostnameLengthLimit} {
		if limit >= naming.MinHostnameLimit && limit <= naming.MaxLength {
			return limit
		}
	}
	return 0
}

func machineOS(pool *provv1.RKEMachinePool) string {
	if pool.MachineOS == "" {
		return defaultOS
	}
	return pool.MachineOS
}

// seconds truncates a duration to whole seconds within the range of the field.
func seconds(d *metav1.Duration) *int32 {
	if d == nil {
		return nil
	}
	whole := int32(min(max(d.Duration/time.Second, 0), math.MaxInt32))
	return &whole
}

// merged copies maps into a new one; later maps win. It returns nil when all maps are empty.
func merged(maps ...map[string]string) map[string]string {
	var result map[string]string
	for _, m := range maps {
		for key, value := range m {
			if result == nil {
				result = map[string]string{}
			}
			result[key] = value
		}
	}
	return result
}

// reservedLabel reports whether Drover or Cluster API defines the key's meaning.
func reservedLabel(key string) bool {
	return key == rkev1.CattleOSLabel ||
		strings.HasPrefix(key, "cluster.x-k8s.io/") ||
		strings.HasPrefix(key, rkeGroup+"/")
}
