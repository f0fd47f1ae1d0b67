package inspect

import (
	"fmt"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// Explanation is the state of a cluster and its causes.
type Explanation struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// ManagedBy is the instance of Drover that manages the cluster, empty if none does.
	ManagedBy string `json:"managedBy,omitempty"`
	// SettingsUnknown says why the server's settings are unknown, empty if they are known. With unknown settings, plans
	// can differ from the plans on the nodes.
	SettingsUnknown string `json:"settingsUnknown,omitempty"`
	// Conditions of the Cluster. Without a control plane they are the whole explanation.
	Conditions []Condition `json:"conditions,omitempty"`
	// Decision is the planner's decision, nil without a control plane.
	Decision *planner.Explanation `json:"decision,omitempty"`
}

// Condition is the content of a condition.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Explain returns what the planner would decide about a cluster now, and why.
func (r *Reader) Explain(name string) (Explanation, error) {
	cluster, err := r.Cluster(name)
	if err != nil {
		return Explanation{}, err
	}
	out := Explanation{Cluster: r.namespace + "/" + name, ManagedBy: cluster.Annotations[rkev1.InstanceAnnotation]}
	out.SettingsUnknown = r.learn(cluster)
	for _, c := range cluster.Status.Conditions {
		out.Conditions = append(out.Conditions, Condition{c.Type, c.Status, c.Reason, c.Message})
	}
	controlPlane, err := r.controlPlane(name)
	if err != nil || controlPlane == nil {
		return out, err
	}
	snapshot, err := r.planner.Snapshot(controlPlane)
	if err != nil {
		return out, fmt.Errorf("read cluster %s: %w", out.Cluster, err)
	}
	decision := planner.Explain(snapshot)
	out.Decision = &decision
	return out, nil
}
