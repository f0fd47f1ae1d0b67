package inspect

import (
	"fmt"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// Explanation is what happens with a cluster, and why.
type Explanation struct {
	// Cluster is its namespace and name.
	Cluster string `json:"cluster"`
	// ManagedBy is the instance of Drover whose cluster it is, empty when it is nobody's yet.
	ManagedBy string `json:"managedBy,omitempty"`
	// SettingsUnknown is why the settings of the server are not known, empty when they are. Then plans may look different from what is on
	// the nodes.
	SettingsUnknown string `json:"settingsUnknown,omitempty"`
	// Conditions of the Cluster. They are all there is to say while there is no control plane.
	Conditions []Condition `json:"conditions,omitempty"`
	// Decision is the planner's, nil while there is no control plane.
	Decision *planner.Explanation `json:"decision,omitempty"`
}

// Condition is what a condition says.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Explain says what the planner would decide now about a cluster, and why.
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
