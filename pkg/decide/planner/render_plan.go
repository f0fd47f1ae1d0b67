package planner

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// renderer renders the plans of machines.
type renderer struct {
	*cluster
	input render.Input // shared by all machines
}

func newRenderer(c *cluster) *renderer {
	s := c.s
	initialized := s.ControlPlane.Status.Initialization.ControlPlaneInitialized
	r := &renderer{cluster: c, input: render.Input{
		ControlPlane: render.ControlPlane{
			Namespace:        s.ControlPlane.Namespace,
			Name:             s.ControlPlane.Name,
			Annotations:      s.ControlPlane.Annotations,
			Spec:             s.ControlPlane.Spec,
			ConfigGeneration: s.ControlPlane.Status.ConfigGeneration,
			Initialized:      initialized != nil && *initialized,
		},
		Tokens:       s.Tokens.Values,
		Settings:     s.Settings,
		Release:      s.Release,
		Objects:      objectsOf(s.Objects),
		ClusterAgent: s.ClusterAgent,
	}}
	if s.Memo != nil {
		uids := map[types.UID]bool{}
		for i := range s.Machines {
			uids[s.Machines[i].UID] = true
		}
		s.Memo.Begin(s.Versions, r.input, func(uid types.UID) bool { return uids[uid] })
	}
	return r
}

func objectsOf(objects []Object) render.Objects {
	out := render.Objects{
		Secrets:    map[types.NamespacedName]render.Secret{},
		ConfigMaps: map[types.NamespacedName]render.ConfigMap{},
	}
	for _, o := range objects {
		key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		switch o.Kind {
		case "Secret":
			out.Secrets[key] = render.Secret{Type: o.Type, Data: o.Data, Annotations: o.Annotations, Denied: o.Denied}
		case "ConfigMap":
			out.ConfigMaps[key] = render.ConfigMap{Data: o.Data, Annotations: o.Annotations}
		}
	}
	return out
}

// inputFor is the input for rendering the plan of a machine.
func (r *renderer) inputFor(m *machine, joinURL string) render.Input {
	in := r.input
	in.Version = r.versionFor(m)
	in.InitNode = m.marks.InitNode
	in.JoinURL = joinURL
	_, byHand := m.Annotations[rkev1.JoinURLAutosetDisabledAnnotation]
	in.Machine = render.Machine{
		Namespace:              r.s.ControlPlane.Namespace,
		Name:                   m.Name,
		UID:                    m.UID,
		Labels:                 m.Labels,
		Annotations:            m.Annotations,
		Roles:                  m.roles,
		NodeName:               m.Labels[rkev1.NodeNameLabel],
		Provisioned:            m.Provisioned,
		Driver:                 m.recorded(),
		JoinURLAutosetDisabled: byHand,
		AgentPin:               m.agentPin,
	}
	return in
}

// recorded is what the driver recorded about the host, nil while that is incomplete. Drivers record a machine before
// they create its host, and so before it has addresses. A plan without these would soon be replaced by one with them,
// which may restart the node. Some drivers record no addresses at all. Their hosts are complete when they exist.
func (m *Machine) recorded() *render.Driver {
	exists := m.InfrastructureReady || m.HasNode
	if m.Driver != nil && !exists && *m.Driver == (render.Driver{Name: m.Driver.Name}) {
		return nil
	}
	return m.Driver
}

// render returns the plan that a machine should have.
func (r *renderer) render(m *machine, joinURL string) (plan.NodePlan, finding) {
	in := r.inputFor(m, joinURL)
	desired, warnings, err := r.plan(in)
	for _, w := range warnings {
		r.warnings[w] = true
	}
	var pending *render.PendingError
	switch {
	case errors.As(err, &pending):
		return desired, finding{pending.Message, ReasonConfiguring}
	case err != nil:
		return desired, finding{"cannot render the plan: " + err.Error(), ReasonRenderFailed}
	}
	if problem := r.misplaces(m, desired); problem != "" {
		return desired, finding{"cannot deliver the plan: " + problem, ReasonRenderFailed}
	}
	return withdraw(render.NodeOf(in), &m.Plan.State, desired), finding{}
}

// plan renders a plan, or takes it from the memo.
func (r *renderer) plan(in render.Input) (plan.NodePlan, []render.Warning, error) {
	if r.s.Memo == nil {
		return r.s.Versions.Plan(in)
	}
	return r.s.Memo.Plan(r.s.Versions, in)
}
