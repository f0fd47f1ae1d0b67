package cmd

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// provisioned is a management cluster with a cluster that has a control plane, a pool, and no machines yet.
func provisioned(t *testing.T) *memkube.Server {
	t.Helper()
	api := management(t)
	check(t, api.Add(&provv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1",
			RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{{Name: "workers"}}}},
	}))
	check(t, api.Add(&rkev1.RKEControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"},
		Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.2+k3s1", ClusterName: "demo",
			ManagementClusterName: "c-m-1"},
	}))
	return api
}

func TestRoll_RecordsTheCommandOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := provisioned(t)
		asked := func() string {
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"}}
			if found, err := api.Get(cluster); err != nil || !found {
				t.Fatal(err)
			}
			return cluster.Annotations[rkev1.RollAnnotation]
		}
		for _, step := range []struct {
			args []string
			want string
		}{
			{[]string{"--dry-run"}, ""},
			{[]string{"--pool", "workers"}, "workers=1"},
			{[]string{"--to", "1"}, "1"},
			{nil, "1"},
			{[]string{"--pool", "workers"}, "1,workers=1"},
		} {
			code, out, problems := look(t, api, append([]string{"roll", "demo"}, step.args...)...)
			if code != 0 || !strings.Contains(out, " render version 1\n") || asked() != step.want {
				t.Errorf("%v: exit code %d, asked %q, want %q\n%s%s", step.args, code, asked(), step.want, out,
					problems)
			}
		}
		if writes := api.Writes("drover"); len(writes) != 3 {
			t.Errorf("%d writes, want one for each new command: %v", len(writes), writes)
		}
	})
}

// beaten is a client that loses one race against another write.
type beaten struct {
	clusterPatcher
	by func()
}

func (b *beaten) Patch(namespace, name string, pt types.PatchType, data []byte,
	subresources ...string) (*provv1.Cluster, error) {
	if by := b.by; by != nil {
		b.by = nil
		by()
	}
	return b.clusterPatcher.Patch(namespace, name, pt, data, subresources...)
}

// Two simultaneous commands for different pools both take effect.
func TestRoll_KeepsConcurrentCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := clients.New(provisioned(t).Config("roll"), clients.Options{WithoutDynamic: true})
		check(t, err)
		clusters := c.Provisioning.Cluster()
		slow := &beaten{clusterPatcher: clusters, by: func() {
			check(t, askToRoll(clusters, defaultNamespace, "demo", "1", []string{"gpu"}))
		}}
		check(t, askToRoll(slow, defaultNamespace, "demo", "1", []string{"workers"}))
		cluster, err := clusters.Get(defaultNamespace, "demo", metav1.GetOptions{})
		check(t, err)
		if got, want := cluster.Annotations[rkev1.RollAnnotation], "gpu=1,workers=1"; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
}

// The output says if the server's settings are unknown, because the result depends on them.
func TestRoll_SaysThatSettingsAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const told = "Settings:  not the server's; it has not published them\n"
		api := provisioned(t)
		if code, out, problems := look(t, api, "roll", "demo", "--dry-run"); code != 0 || !strings.Contains(out, told) {
			t.Errorf("exit code %d, want %q in\n%s%s", code, told, out, problems)
		}
		published := controllers.Settings{}.ConfigMap("mine")
		published.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		check(t, api.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: published.Namespace}}))
		check(t, api.Add(published))
		if code, out, problems := look(t, api, "roll", "demo", "--dry-run"); code != 0 ||
			strings.Contains(out, "Settings:") {
			t.Errorf("exit code %d, unexpected Settings in\n%s%s", code, out, problems)
		}
	})
}

func TestRoll_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown version": {[]string{"demo", "--to", "9"},
			`unknown render version "9"; use one of 1`},
		"a missing pool": {[]string{"demo", "--pool", "gpu"},
			`cluster fleet-default/demo has no machine pool "gpu"`},
		"a missing cluster": {[]string{"absent"},
			"there is no Cluster absent in namespace fleet-default; -n names another one"},
		"a cluster without a control plane": {[]string{"young"}, "has no control plane yet"},
		"two values":                        {[]string{"demo", "--wait", "--dry-run"}, "none of the others can be"},
		"without a cluster":                 {nil, "CLUSTER is missing; see 'drover roll --help'"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := provisioned(t)
				code, out, problems := look(t, api, append([]string{"roll"}, tc.args...)...)
				if code != 1 || !strings.Contains(problems, tc.want) {
					t.Errorf("exit code %d, want %q:\n%s%s", code, tc.want, out, problems)
				}
				if writes := api.Writes("drover"); len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}

func TestRoll_Completion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for flag, want := range map[string]string{"--pool": "workers\n", "--to": "1\n"} {
			if code, out, _ := look(t, provisioned(t), cobraComplete, "roll", "demo", flag, ""); code != 0 ||
				!strings.HasPrefix(out, want) {
				t.Errorf("%s: %d %q", flag, code, out)
			}
		}
	})
}

func TestPrintRoll(t *testing.T) {
	var out bytes.Buffer
	r := inspect.Roll{Cluster: "a/demo", To: "2", Result: planner.ClassRestart, Machines: []inspect.RollMachine{
		{Name: "s1", Pool: "servers", Roles: "etcd", From: "1", Class: planner.ClassRestart, Drained: true,
			Cause: disruption.CommandRoll},
		{Name: "w1", Pool: "workers", Roles: "worker", From: "2", Class: planner.ClassNone},
		{Name: "w2", Roles: "worker", Class: planner.ClassNone, Held: "has no plan yet"},
	}}
	o := inspectOptions{output: outputTable}
	check(t, o.print(&out, r, func(w io.Writer) { printRoll(w, r) }))
	want := `Cluster:  a/demo
To:       render version 2
Result:   Restart

Machines:
  NAME  POOL     ROLES   FROM  CLASS    DRAIN  CAUSE
  s1    servers  etcd    1     Restart  yes    command-roll
  w1    workers  worker  2     None     no     -
  w2    -        worker  -     None     no     held: has no plan yet
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"s1", "w2"}, r.Pending()); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	root := NewCommand(nil)
	if err := rollVerdict(root, r); err == nil || err.Error() != "exit code 2" {
		t.Errorf("verdict %v", err)
	}
	r.Machines[0].Problem = "too large"
	if err := rollVerdict(root, r); err == nil ||
		!strings.Contains(err.Error(), "cannot make a plan for machine s1: too large") {
		t.Errorf("verdict %v", err)
	}
}

func TestRollWait(t *testing.T) {
	t.Parallel()
	moved, coming := inspect.RollMachine{Name: "a", From: "2"}, inspect.RollMachine{Name: "b", From: "1"}
	held := inspect.RollMachine{Name: "c", From: "1", Held: "the machine pool is paused"}
	for name, test := range map[string]struct {
		machines []inspect.RollMachine
		decision planner.Explanation
		want     string
		wantErr  string
	}{
		"all have moved": {machines: []inspect.RollMachine{moved}},
		"some machines are pending": {machines: []inspect.RollMachine{moved, coming, held},
			want: "waiting for b, c"},
		"the remaining machines need a person": {machines: []inspect.RollMachine{moved, held},
			wantErr: "need a person: machine c: the machine pool is paused"},
		"the cluster waits": {machines: []inspect.RollMachine{held},
			decision: planner.Explanation{Wait: &planner.ExplainedWait{Message: "m drains"}}, want: "m drains"},
		"the cluster needs a person": {decision: planner.Explanation{Wait: &planner.ExplainedWait{Message: "m is lost",
			NeedsPerson: true}}, wantErr: "m is lost"},
	} {
		got, err := rollWait(inspect.Roll{To: "2", Machines: test.machines}, &test.decision)
		if got != test.want || (err == nil) != (test.wantErr == "") || err != nil &&
			!strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%s: got %q, error %v; want %q, error %q", name, got, err, test.want, test.wantErr)
		}
	}
}
