package edit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// demo has two servers and a pool of workers, after them a pool that an autoscaler sizes, and one without a size.
func demo() *provv1.Cluster {
	c := build.Cluster("demo", build.Pool("servers", "ec", 3), build.Pool("workers", "w", 2),
		build.Pool("auto", "w", 1),
		build.Pool("free", "w", 1))
	c.ResourceVersion, c.UID, c.Generation = "7", "u", 4
	pools := c.Spec.RKEConfig.MachinePools
	pools[2].AutoscalingMinSize, pools[2].AutoscalingMaxSize = new(int32(1)), new(int32(5))
	pools[3].Quantity = nil
	return c
}

func facts(t *testing.T) releases.Table {
	t.Helper()
	table, err := releases.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// outcome is the patch of a change with its warnings, or the error.
func outcome(c edit.Change, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case c.IsEmpty():
		return "nothing"
	}
	patch, err := c.Patch()
	if err != nil {
		return err.Error()
	}
	lines := []string{string(patch)}
	for _, w := range c.Warnings {
		lines = append(lines, w.Field+": "+w.Message)
	}
	return strings.Join(lines, "\n")
}

const versionStep = `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"}`

func TestScale(t *testing.T) {
	const pools = "/spec/rkeConfig/machinePools/"
	for name, tc := range map[string]struct {
		change func(c *provv1.Cluster)
		args   []string
		want   string
	}{
		"one pool": {nil, []string{"workers=5"}, versionStep + `,{"op":"add","path":"` + pools +
			`1/quantity","value":5}]`},
		"two pools with one write": {nil, []string{"workers=0", "servers=1"}, versionStep + `,{"op":"add","path":"` +
			pools + `0/quantity","value":1},{"op":"add","path":"` + pools + `1/quantity","value":0}]`},
		"the size that it has": {nil, []string{"workers=2"}, "nothing"},
		"a pool without a size": {nil, []string{"free=1"}, versionStep + `,{"op":"add","path":"` + pools +
			`3/quantity","value":1}]` + "\nspec.rkeConfig.machinePools[free].quantity: the Cluster had no size of this " +
			"pool; another program that sizes the pool loses it"},
		"a pool of an autoscaler": {nil, []string{"auto=3"}, "error: an autoscaler sizes pool auto between 1 and 5 " +
			"machines: change autoscalingMinSize and autoscalingMaxSize of the pool instead"},
		"an unknown pool": {nil, []string{"gpu=3"}, `error: cluster fleet-default/demo has no machine pool "gpu"; its ` +
			"pools are servers, workers, auto, free"},
		"existing hosts": {func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = nil }, []string{"workers=1"},
			`error: cluster fleet-default/demo has no machine pool "workers"; it consists of existing hosts: register ` +
				"a host, or delete its Machine"},
		"an imported cluster": {func(c *provv1.Cluster) { c.Spec.RKEConfig = nil }, []string{"workers=1"},
			"error: cluster fleet-default/demo has no spec.rkeConfig: Drover did not provision it, and changes none " +
				"of its machines"},
		"a cluster in deletion": {func(c *provv1.Cluster) { c.DeletionTimestamp = &metav1.Time{} },
			[]string{"workers=1"},
			"error: cluster fleet-default/demo is being deleted: edits have no effect"},
		"no number": {nil, []string{"workers"}, `error: "workers" must be the name of a pool and its number of ` +
			`machines, for example workers=3`},
		"a word": {nil, []string{"workers=many"},
			`error: "workers=many": the number of machines must be 0 or more`},
		"a number below 0": {nil, []string{"workers=-1"}, `error: "workers=-1": the number of machines must be 0 or more`},
		"a pool twice":     {nil, []string{"workers=1", "workers=2"}, "error: pool workers has two sizes; use one"},
	} {
		c := demo()
		if tc.change != nil {
			tc.change(c)
		}
		before := c.DeepCopy()
		sizes, err := edit.ParseSizes(tc.args)
		change := edit.Change{}
		if err == nil {
			change, err = edit.Scale(c, sizes)
		}
		if diff := cmp.Diff(tc.want, outcome(change, err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, c); diff != "" {
			t.Errorf("%s: the change modifies the Cluster that the user has seen:\n%s", name, diff)
		}
	}
}

func TestUpgrade(t *testing.T) {
	to := func(version string) string {
		return versionStep + `,{"op":"add","path":"/spec/kubernetesVersion","value":"` + version + `"}]`
	}
	const known = "; the release data have rke2 1.33, 1.34, 1.35, 1.36"
	for name, tc := range map[string]struct{ was, version, want string }{
		"a patch":        {"v1.35.1+rke2r1", "v1.35.4+rke2r1", to("v1.35.4+rke2r1")},
		"the next minor": {"v1.35.1+rke2r1", "v1.36.3+rke2r1", to("v1.36.3+rke2r1")},
		"the same":       {"v1.35.1+rke2r1", "v1.35.1+rke2r1", "nothing"},
		"an earlier one": {"v1.35.4+rke2r1", "v1.35.1+rke2r1", to("v1.35.1+rke2r1")},
		"several minors": {"v1.33.1+rke2r1", "v1.36.3+rke2r1", to("v1.36.3+rke2r1") + "\nspec.kubernetesVersion: " +
			"Kubernetes supports no upgrade over several minors; upgrade to 1.34 first"},
		"a minor back": {"v1.36.1+rke2r1", "v1.35.3+rke2r1", to("v1.35.3+rke2r1") + "\nspec.kubernetesVersion: " +
			"Kubernetes supports no downgrade to an earlier minor; restore a snapshot with that version instead"},
		"an unknown one": {"v1.36.1+rke2r1", "v1.63.3+rke2r1", `error: "v1.63.3+rke2r1" is unknown: the release data ` +
			`have rke2 1.33, 1.34, 1.35, 1.36; --release-data names newer data`},
		"no distribution": {"v1.36.1+rke2r1", "v1.36.3", `error: "v1.36.3" must name a distribution behind +, for ` +
			`example v1.36.2+rke2r1 or v1.36.2+k3s1` + known},
		"another distribution": {"v1.36.1+rke2r1", "v1.36.3+k3s1",
			`error: "v1.36.3+k3s1" is a version of k3s, and the cluster is one of rke2` + known},
		"no version": {"v1.36.1+rke2r1", "newest",
			`error: "newest" must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1` + known},
	} {
		c := demo()
		c.Spec.KubernetesVersion = tc.was
		if diff := cmp.Diff(tc.want, outcome(edit.Upgrade(c, tc.version, facts(t)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOffered(t *testing.T) {
	for now, want := range map[string]string{
		"v1.34.2+k3s1": "v1.34. v1.35.", "v1.36.2+rke2r1": "v1.36.", "": "v1.33. v1.34. v1.35. v1.36.",
	} {
		if got := strings.Join(edit.Offered(now, facts(t)), " "); got != want {
			t.Errorf("after %q: %s, want %s", now, got, want)
		}
	}
}

// A change is valid for a newer version of the Cluster only if the preview would be the same.
func TestChange_On(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(c *provv1.Cluster)
		want error
	}{
		"nothing":          {func(*provv1.Cluster) {}, nil},
		"the status":       {func(c *provv1.Cluster) { c.ResourceVersion, c.Status.Ready = "8", true }, nil},
		"the spec":         {func(c *provv1.Cluster) { c.Generation, c.Spec.AgentEnvVars = 5, nil }, edit.ErrChanged},
		"an annotation":    {func(c *provv1.Cluster) { c.Annotations = map[string]string{"a": "b"} }, edit.ErrChanged},
		"a label":          {func(c *provv1.Cluster) { c.Labels = map[string]string{"a": "b"} }, edit.ErrChanged},
		"a deletion":       {func(c *provv1.Cluster) { c.DeletionTimestamp = &metav1.Time{} }, edit.ErrChanged},
		"another Cluster":  {func(c *provv1.Cluster) { c.UID = "v" }, edit.ErrChanged},
		"only the version": {func(c *provv1.Cluster) { c.ResourceVersion = "9" }, nil},
	} {
		change, err := edit.Scale(demo(), edit.Sizes{"workers": 5})
		if err != nil {
			t.Fatal(err)
		}
		now := demo()
		tc.edit(now)
		moved, err := change.On(now)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if patch := outcome(moved, nil); err == nil && !strings.Contains(patch, `"value":"`+now.ResourceVersion+`"`) {
			t.Errorf("%s: the patch is not for version %s: %s", name, now.ResourceVersion, patch)
		}
	}
}
