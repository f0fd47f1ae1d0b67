package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// Reader gathers what the controller gathers, for programs that explain decisions and carry none out. It writes nothing, and
// reads what the caches of its Deps give.
type Reader struct{ handler *handler }

// NewReader returns a reader. Of the Deps it needs what gathering needs; nothing is registered with the controllers in it but
// indexes.
func NewReader(d Deps) *Reader {
	h := newHandler(d)
	h.addIndexers()
	return &Reader{h}
}

// Snapshot is what one decision about a control plane would be made from.
func (r *Reader) Snapshot(cp *rkev1.RKEControlPlane) (planner.Snapshot, error) {
	v, err := r.handler.gather(cp)
	if err != nil {
		return planner.Snapshot{}, err
	}
	return v.snapshot, nil
}

// Objects are the Secrets and ConfigMaps that the configuration of a control plane refers to and that exist.
func (r *Reader) Objects(cp *rkev1.RKEControlPlane) ([]planner.Object, error) {
	v := &view{snapshot: planner.Snapshot{Settings: r.handler.Settings()}}
	if err := r.handler.gatherObjects(cp, v); err != nil {
		return nil, err
	}
	return v.snapshot.Objects, nil
}

// Rehearse runs the handler once for a control plane. With Deps on a stage (see package rehearsal), that tells what it would write.
func Rehearse(d Deps, cp *rkev1.RKEControlPlane) error {
	h := newHandler(d)
	h.addIndexers()
	_, err := h.onChange(cp.Namespace+"/"+cp.Name, cp)
	return err
}
