package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// Reader gathers the same facts as the controller, for programs that explain decisions. It writes nothing and reads
// only the caches of its Deps.
type Reader struct{ handler *handler }

// NewReader returns a Reader. It needs only the Deps for gathering. It registers indexes with the controllers in Deps,
// and nothing else.
func NewReader(d Deps) *Reader {
	h := newHandler(d)
	h.addIndexers()
	return &Reader{h}
}

// Snapshot returns the input of a decision about a control plane.
func (r *Reader) Snapshot(cp *rkev1.RKEControlPlane) (planner.Snapshot, error) {
	v, err := r.handler.gather(cp)
	if err != nil {
		return planner.Snapshot{}, err
	}
	return v.snapshot, nil
}

// Objects returns the existing Secrets and ConfigMaps that the configuration of a control plane refers to.
func (r *Reader) Objects(cp *rkev1.RKEControlPlane) ([]planner.Object, error) {
	v := &view{snapshot: planner.Snapshot{Settings: r.handler.Settings()}}
	if err := r.handler.gatherObjects(cp, v); err != nil {
		return nil, err
	}
	return v.snapshot.Objects, nil
}

// Rehearse runs the handler once for a control plane. With Deps from a stage (package rehearsal), it only lists what it
// would write.
func Rehearse(d Deps, cp *rkev1.RKEControlPlane) error {
	h := newHandler(d)
	h.addIndexers()
	_, err := h.onChange(cp.Namespace+"/"+cp.Name, cp)
	return err
}
