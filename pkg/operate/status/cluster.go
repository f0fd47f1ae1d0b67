package status

import (
	"strings"
	"time"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/summary"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// maxMessage is the limit for a message, in bytes.
const maxMessage = 1000

// Stages of a cluster.
const (
	stageObjects   = "objects"
	stageBootstrap = "bootstrap"
	stageJoin      = "join"
)

// OfCluster returns the row of a cluster. It uses only the Cluster: its conditions repeat those of the control plane.
func OfCluster(cluster *provv1.Cluster) Cluster {
	list := cluster.Status.Conditions
	s := summary.OfCluster(cluster, conditions.Get(list, provv1.ConditionReady), cluster.CreationTimestamp.Time)
	row := Cluster{
		Namespace: cluster.Namespace, Name: cluster.Name, ID: cluster.Status.ClusterName,
		State: s.State, Reason: s.Reason, Message: told(s.Message), Since: when(s.Since),
		Version: cluster.Spec.KubernetesVersion, Distribution: topology.Distribution(cluster.Spec.KubernetesVersion),
		Imported: cluster.Spec.RKEConfig == nil, Pools: poolsOf(cluster), Stages: clusterStages(cluster),
		Created: cluster.CreationTimestamp.UTC(), Observed: cluster.Status.ObservedGeneration,
	}
	for i := range list {
		row.Conditions = append(row.Conditions, conditionOf(list[i].Type, list[i].Status, list[i].Reason,
			list[i].Message, parse(list[i].LastTransitionTime)))
	}
	return row
}

func poolsOf(cluster *provv1.Cluster) []Pool {
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	var out []Pool
	for i := range cluster.Spec.RKEConfig.MachinePools {
		pool := &cluster.Spec.RKEConfig.MachinePools[i]
		out = append(out, Pool{Name: pool.Name, Wanted: topology.Wanted(pool), Paused: pool.Paused,
			Scaled: pool.Quantity == nil || pool.AutoscalingMinSize != nil,
			Roles:  roles(topology.Servers{Etcd: pool.EtcdRole, ControlPlane: pool.ControlPlaneRole}, pool.WorkerRole)})
	}
	return out
}

func roles(servers topology.Servers, worker bool) []string {
	var out []string
	for _, role := range []struct {
		name string
		has  bool
	}{{"etcd", servers.Etcd}, {"controlplane", servers.ControlPlane}, {"worker", worker}} {
		if role.has {
			out = append(out, role.name)
		}
	}
	return out
}

// firstReady is how long the first readiness of a cluster may follow its first answer. A later change of condition
// Ready belongs to a later change of the cluster.
const firstReady = time.Hour

// clusterStages returns the stages whose times the conditions still tell. Later changes of a cluster move the times of
// condition Ready.
func clusterStages(cluster *provv1.Cluster) []Stage {
	list := cluster.Status.Conditions
	if cluster.Spec.RKEConfig == nil || !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	made := conditions.Get(list, provv1.ConditionRKECluster)
	reached := conditions.Get(list, provv1.ConditionReconciling)
	ready := conditions.Get(list, provv1.ConditionReady)
	out := []Stage{{Name: stageObjects, Begin: cluster.CreationTimestamp.UTC()}}
	if made == nil || made.Status != rkev1.ConditionTrue {
		return out
	}
	out = next(out, stageBootstrap, parse(made.LastTransitionTime))
	if reached == nil || reached.Status != rkev1.ConditionFalse || !cluster.Status.Ready {
		return out
	}
	at := parse(reached.LastTransitionTime)
	out = next(out, stageJoin, at)
	if ready == nil {
		return out
	}
	changed := parse(ready.LastTransitionTime)
	switch {
	case ready.Status == rkev1.ConditionTrue && changed.Sub(at) < firstReady:
		end(&out[len(out)-1], changed)
	case ready.Status == rkev1.ConditionTrue, changed.After(at): // it was ready before
		out = out[:len(out)-1]
	}
	return out
}

// next ends the last stage, and begins another one.
func next(stages []Stage, name string, at time.Time) []Stage {
	end(&stages[len(stages)-1], at)
	return append(stages, Stage{Name: name, Begin: *stages[len(stages)-1].End})
}

// end ends a stage. Times of objects have whole seconds, so an end may appear to be before the beginning.
func end(stage *Stage, at time.Time) {
	if at.Before(stage.Begin) {
		at = stage.Begin
	}
	at = at.UTC()
	stage.End = &at
}

// calm are the conditions whose normal status is False.
var calm = map[string]bool{provv1.ConditionStalled: true, provv1.ConditionReconciling: true, "Deleting": true,
	"Paused": true, "Updating": true}

// conditionOf describes a condition. Browsers get the conditions of thousands of machines, so a condition that is as it
// should be has neither reason nor message.
func conditionOf(kind, status, reason, message string, since time.Time) Condition {
	c := Condition{Type: kind, Status: status, Since: when(since)}
	normal := rkev1.ConditionTrue
	if calm[kind] {
		normal = rkev1.ConditionFalse
	}
	if status != normal {
		c.Reason, c.Message = reason, told(message)
	}
	return c
}

// told returns a message for users: one line, short, without secrets.
func told(text string) string {
	if text == "" {
		return ""
	}
	text = strings.Join(strings.Fields(redact.Text(text)), " ")
	if len(text) > maxMessage {
		text = redact.Clip(text, maxMessage)
	}
	return text
}

func when(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func parse(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{} // an unreadable time is unknown
	}
	return at
}
