package topology

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// machineHealthCheck makes Cluster API replace machines whose node is not ready for too long. A pool without such a
// timeout has no check.
//
// Pools with etcd share the check of the first of them, because quorum depends on all members and a check counts only
// its own machines. It uses the longest of their timeouts.
//
// The check pauses during a restore of etcd, longer than the operation pauses the cluster. Cluster API has to replace
// machines for the restore. It must not replace machines that wait for their turn to start, or that the restored data
// do not contain.
func machineHealthCheck(in Input, pool *provv1.RKEMachinePool) *clusterv1.MachineHealthCheck {
	if !healthChecked(pool) {
		return nil
	}
	cluster := in.Cluster
	group, limit := []*provv1.RKEMachinePool{pool}, ownLimit(pool)
	if pool.EtcdRole {
		if group = checkedEtcd(cluster); group[0].Name != pool.Name {
			return nil
		}
		limit = quorumLimit(in, group)
	}
	timeout, startup := longestTimes(group)
	unhealthy := func(status corev1.ConditionStatus) clusterv1.UnhealthyNodeCondition {
		return clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: status,
			TimeoutSeconds: seconds(timeout)}
	}
	check := &clusterv1.MachineHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineHealthCheck"},
		ObjectMeta: objectMeta(cluster, naming.MachineDeployment(cluster.Name, pool.Name)),
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: cluster.Name,
			Selector:    machinesOf(cluster, group),
			Checks: clusterv1.MachineHealthCheckChecks{
				NodeStartupTimeoutSeconds: seconds(startup),
				UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
					unhealthy(corev1.ConditionUnknown), unhealthy(corev1.ConditionFalse),
				},
			},
			Remediation: clusterv1.MachineHealthCheckRemediation{TriggerIf: limit},
		},
	}
	if in.Restoring {
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	}
	return check
}

func healthChecked(pool *provv1.RKEMachinePool) bool {
	return pool.UnhealthyNodeTimeout != nil && pool.UnhealthyNodeTimeout.Duration > 0
}

// checkedEtcd returns the pools with etcd and a health check.
func checkedEtcd(cluster *provv1.Cluster) []*provv1.RKEMachinePool {
	var found []*provv1.RKEMachinePool
	for i := range pools(cluster) {
		if pool := &pools(cluster)[i]; pool.EtcdRole && healthChecked(pool) {
			found = append(found, pool)
		}
	}
	return found
}

func machinesOf(cluster *provv1.Cluster, group []*provv1.RKEMachinePool) metav1.LabelSelector {
	names := make([]string, 0, len(group))
	for _, pool := range group {
		names = append(names, naming.MachineDeployment(cluster.Name, pool.Name))
	}
	if len(names) == 1 {
		return metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineDeploymentNameLabel: names[0]}}
	}
	slices.Sort(names)
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: clusterv1.MachineDeploymentNameLabel, Operator: metav1.LabelSelectorOpIn, Values: names},
	}}
}

// nodeStartupDefault is how long Cluster API waits for a node by default.
const nodeStartupDefault = 10 * time.Minute

// longestTimes returns the longest timeouts of pools. The second is nil when no pool has one. It is 0 when a pool waits
// for nodes forever, which is what 0 means to Cluster API.
func longestTimes(group []*provv1.RKEMachinePool) (unhealthy, startup *metav1.Duration) {
	var longest, longestStart time.Duration
	told, endless := false, false
	for _, pool := range group {
		longest = max(longest, pool.UnhealthyNodeTimeout.Duration)
		start := nodeStartupDefault
		if pool.NodeStartupTimeout != nil {
			start, told = pool.NodeStartupTimeout.Duration, true
		}
		longestStart, endless = max(longestStart, start), endless || start < time.Second
	}
	switch {
	case endless:
		startup = &metav1.Duration{}
	case told:
		startup = &metav1.Duration{Duration: longestStart}
	}
	return &metav1.Duration{Duration: longest}, startup
}

// ownLimit is the user's limit.
func ownLimit(pool *provv1.RKEMachinePool) clusterv1.MachineHealthCheckRemediationTriggerIf {
	limit := clusterv1.MachineHealthCheckRemediationTriggerIf{}
	if pool.UnhealthyRange != nil {
		limit.UnhealthyInRange = *pool.UnhealthyRange
	}
	if pool.MaxUnhealthy != nil && *pool.MaxUnhealthy != "" {
		parsed := intstr.Parse(*pool.MaxUnhealthy)
		limit.UnhealthyLessThanOrEqualTo = &parsed
	}
	return limit
}

// minority is a share in percent that always rounds down to less than half of the machines: none of one or two
// machines, one of three or four, two of five. A share applies to the machines that exist now, however many are
// desired.
const minority = 49

// quorumLimit permits the replacement of etcd members while the others are a majority of all, and never more at a time
// than the user allows. A single member is never replaced, because its data would be lost. Members without a health
// check, in pools or registered, count as if all of them were gone.
func quorumLimit(in Input, group []*provv1.RKEMachinePool) clusterv1.MachineHealthCheckRemediationTriggerIf {
	all, checked := in.RegisteredMembers, 0
	for i := range pools(in.Cluster) {
		if pool := &pools(in.Cluster)[i]; pool.EtcdRole {
			all += members(in, pool)
		}
	}
	for _, pool := range group {
		checked += members(in, pool)
	}
	share := minority
	if all > checked {
		share = min(share, shareOf(max(checked-(all/2+1), 0), checked))
	}
	lowest := 0
	for _, pool := range group {
		from, upTo := usersShare(pool, checked)
		lowest, share = max(lowest, from), min(share, upTo)
	}
	if lowest > 1 {
		share = 0 // a range counts machines, and fewer may exist than are desired
	}
	limit := intstr.FromString(strconv.Itoa(share) + "%")
	return clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &limit}
}

// members is the desired number of machines of a pool, even when an autoscaler or the user scales it.
func members(in Input, pool *provv1.RKEMachinePool) int {
	return int(*replicas(in, pool, naming.MachineDeployment(in.Cluster.Name, pool.Name)))
}

// LimitsFollow reports whether health checks or validation depend on the size that another program or the user gives a
// MachineDeployment. That is the case for a pool with etcd and without a quantity.
func LimitsFollow(cluster *provv1.Cluster, deployment string) bool {
	if cluster.Spec.RKEConfig == nil || len(checkedEtcd(cluster)) == 0 && !DeletesFirst(cluster) {
		return false
	}
	return slices.ContainsFunc(pools(cluster), func(pool provv1.RKEMachinePool) bool {
		return pool.EtcdRole && pool.Quantity == nil && naming.MachineDeployment(cluster.Name, pool.Name) == deployment
	})
}

// shareOf is the share of the machines that rounds down to number.
func shareOf(number, of int) int {
	if of <= 0 {
		return 0
	}
	return min((100*number+of-1)/of, 100)
}

// usersShare is what a pool allows for so many machines: at least from unhealthy machines before a replacement, and at
// most a share of upTo percent.
func usersShare(pool *provv1.RKEMachinePool, machines int) (from, upTo int) {
	upTo = 100
	if pool.MaxUnhealthy != nil {
		parsed := intstr.Parse(*pool.MaxUnhealthy)
		percent, isPercentage := strings.CutSuffix(parsed.StrVal, "%")
		if number, err := strconv.Atoi(percent); isPercentage && err == nil {
			upTo = min(upTo, number)
		} else if parsed.Type == intstr.Int {
			upTo = min(upTo, shareOf(parsed.IntValue(), machines))
		}
	}
	if lowest, highest, ok := rangeOf(pool); ok {
		from, upTo = lowest, min(upTo, shareOf(highest, machines))
	}
	return from, upTo
}

// rangeOf parses the range of a pool. ok is false without a readable range.
func rangeOf(pool *provv1.RKEMachinePool) (lowest, highest int, ok bool) {
	if pool.UnhealthyRange == nil || !unhealthyRange.MatchString(*pool.UnhealthyRange) {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(strings.Trim(*pool.UnhealthyRange, "[]"), "-")
	lowest, err := strconv.Atoi(from)
	if err != nil {
		return 0, 0, false
	}
	highest, err = strconv.Atoi(to)
	return lowest, highest, err == nil && lowest <= highest
}
