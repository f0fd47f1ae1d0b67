package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Change is an edit of an existing Cluster.
type Change struct {
	// Before is the Cluster that the user has seen. After is the Cluster with the change.
	Before, After *provv1.Cluster
	// Warnings are what the user must know before the change. The preview does not know them.
	Warnings []preview.Warning
	steps    []step
}

// step is one operation of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// ErrChanged says that the Cluster is not the one that the user has seen.
var ErrChanged = errors.New("the cluster has changed since the preview, and nothing was written; " +
	"look at the preview again")

// IsEmpty reports whether the Cluster already has what the change requests.
func (c Change) IsEmpty() bool { return len(c.steps) == 0 }

// Patch returns a JSON patch for exactly the version of the Cluster that the user has seen. Fields that this program
// does not know keep their values.
func (c Change) Patch() ([]byte, error) {
	steps := append([]step{{"replace", "/metadata/resourceVersion", c.Before.ResourceVersion}}, c.steps...)
	data, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf("encode the change: %w", err)
	}
	return data, nil
}

// On returns the change for a newer version of the Cluster. It fails if the newer version differs in more than the
// status, because the preview depends on the rest.
func (c Change) On(now *provv1.Cluster) (Change, error) {
	if err := Unchanged(c.Before, now); err != nil {
		return c, err
	}
	c.Before = c.Before.DeepCopy()
	c.Before.ResourceVersion = now.ResourceVersion
	return c, nil
}

// Unchanged returns ErrChanged if a Cluster differs in more than its status from the Cluster that the user has seen.
func Unchanged(seen, now *provv1.Cluster) error {
	isSame := seen.UID == now.UID && seen.Generation == now.Generation &&
		equality.Semantic.DeepEqual(seen.Spec, now.Spec) && equality.Semantic.DeepEqual(seen.Labels, now.Labels) &&
		equality.Semantic.DeepEqual(seen.Annotations, now.Annotations) &&
		(seen.DeletionTimestamp == nil) == (now.DeletionTimestamp == nil)
	if !isSame {
		return ErrChanged
	}
	return nil
}

func nameOf(cluster *provv1.Cluster) string { return cluster.Namespace + "/" + cluster.Name }

// editable refuses Clusters whose machines Drover does not change.
func editable(cluster *provv1.Cluster) error {
	switch {
	case cluster.DeletionTimestamp != nil:
		return fmt.Errorf("cluster %s is being deleted: edits have no effect", nameOf(cluster))
	case cluster.Spec.RKEConfig == nil:
		return fmt.Errorf("cluster %s has no spec.rkeConfig: Drover did not provision it, and changes none of its "+
			"machines",
			nameOf(cluster))
	}
	return nil
}

// Sizes are sizes of pools by name.
type Sizes map[string]int32

// ParseSizes reads arguments such as workers=3.
func ParseSizes(args []string) (Sizes, error) {
	out := Sizes{}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		size, err := strconv.ParseInt(text, 10, 32)
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%q must be the name of a pool and its number of machines, for example workers=3",
				arg)
		case err != nil || size < 0:
			return nil, fmt.Errorf("%q: the number of machines must be 0 or more", arg)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("pool %s has two sizes; use one", name)
		}
		out[name] = int32(size)
	}
	return out, nil
}

// Scale changes the number of machines of pools.
func Scale(cluster *provv1.Cluster, sizes Sizes) (Change, error) {
	c := Change{Before: cluster, After: cluster.DeepCopy()}
	if err := editable(cluster); err != nil {
		return c, err
	}
	pools := c.After.Spec.RKEConfig.MachinePools
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		at := slices.IndexFunc(pools, func(p provv1.RKEMachinePool) bool { return p.Name == name })
		if at < 0 {
			return c, fmt.Errorf("cluster %s has no machine pool %q; %s", nameOf(cluster), name, poolsOf(pools))
		}
		pool, size := &pools[at], sizes[name]
		if pool.AutoscalingMinSize != nil && pool.AutoscalingMaxSize != nil {
			return c, fmt.Errorf("an autoscaler sizes pool %s between %d and %d machines: change autoscalingMinSize "+
				"and autoscalingMaxSize of the pool instead", name, *pool.AutoscalingMinSize, *pool.AutoscalingMaxSize)
		}
		if pool.Quantity != nil && *pool.Quantity == size {
			continue
		}
		if pool.Quantity == nil {
			c.Warnings = append(c.Warnings, preview.Warning{Field: sizeField(name),
				Message: "the Cluster had no size of this pool; another program that sizes the pool loses it"})
		}
		pool.Quantity = &size
		c.steps = append(c.steps, step{"add", fmt.Sprintf("/spec/rkeConfig/machinePools/%d/quantity", at), size})
	}
	return c, nil
}

func sizeField(pool string) string { return "spec.rkeConfig.machinePools[" + pool + "].quantity" }

// poolsOf names the pools of a cluster for an error.
func poolsOf(pools []provv1.RKEMachinePool) string {
	if len(pools) == 0 {
		return "it consists of existing hosts: register a host, or delete its Machine"
	}
	names := make([]string, 0, len(pools))
	for i := range pools {
		names = append(names, pools[i].Name)
	}
	return "its pools are " + strings.Join(names, ", ")
}
