package inspect

import (
	"errors"
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Restored returns a Cluster with the configuration that its request for a restore puts back, and the snapshot that
// contains it. Without such a request, it returns the Cluster itself and no snapshot.
func (r *Reader) Restored(cluster *provv1.Cluster) (restoredspec.Result, *rkev1.ETCDSnapshot, error) {
	request := restoredspec.Wanted(cluster)
	if request == nil {
		return restoredspec.Result{Cluster: cluster}, nil, nil
	}
	snapshot, err := r.snapshot(request.Name)
	if err != nil {
		return restoredspec.Result{Cluster: cluster}, nil, err
	}
	result, problems := restoredspec.Restore(cluster, snapshot)
	if len(problems) > 0 {
		return result, snapshot, errors.New(topology.Explain(problems))
	}
	return result, snapshot, nil
}

// restored returns the edited cluster with the configuration that the server would put back before it acts on the edit.
func (r *Reader) restored(edited *provv1.Cluster, controlPlane *rkev1.RKEControlPlane) (*provv1.Cluster,
	[]preview.Restored, error) {
	if restoredspec.Pending(edited, controlPlane) == nil {
		return edited, nil, nil
	}
	result, _, err := r.Restored(edited)
	return result.Cluster, ShownChanges(result.Changes), err
}

// ShownChanges describes fields that go back, without secrets.
func ShownChanges(changes []restoredspec.Change) []preview.Restored {
	var out []preview.Restored
	for _, change := range changes {
		before, after := change.Shown()
		out = append(out, preview.Restored{Field: change.Field, Old: oneLine(before), New: oneLine(after)})
	}
	return out
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
