package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// editable is a management cluster with the valid Cluster demo, which has a pool of one machine.
func editable(t *testing.T) *memkube.Server {
	t.Helper()
	api := management(t)
	file, err := inspect.ParseFile([]byte(newCluster))
	check(t, err)
	file.Cluster.Namespace = defaultNamespace
	check(t, api.Add(file.Cluster))
	for _, config := range file.MachineConfigs {
		config.SetNamespace(defaultNamespace)
		check(t, api.Add(config))
	}
	return api
}

// editing runs a command that changes a cluster, with an answer on a terminal. An empty answer is no terminal.
type editing struct {
	api    *memkube.Server
	answer string
	// asked is called when the command reads the answer.
	asked func()
}

// Read implements io.Reader for the answer.
func (e *editing) Read(p []byte) (int, error) {
	if e.asked != nil {
		e.asked()
		e.asked = nil
	}
	if e.answer == "" {
		return 0, io.EOF
	}
	n := copy(p, e.answer)
	e.answer = e.answer[n:]
	return n, nil
}

func (e *editing) run(args ...string) (code int, out, problems string) {
	root := &cobra.Command{Use: "drover", SilenceUsage: true}
	parent := &cobra.Command{Use: "upgrade"}
	answers := e.answer != ""
	options := func() *editOptions {
		o := newEditOptions(nil, &inspectOptions{config: e.api.Config("editor")})
		o.isTerminal = func(io.Reader) bool { return answers }
		o.terminal = func(io.Writer) *terminal { return nil }
		return o
	}
	parent.AddCommand(newUpgradeCluster(options()))
	root.AddCommand(newScale(options()), newDelete(options()), parent)
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetIn(e)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	code = execute(ctx, root, args)
	return code, stdout.String(), stderr.String()
}

func demoOf(t *testing.T, api *memkube.Server) *provv1.Cluster {
	t.Helper()
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"}}
	found, err := api.Get(cluster)
	check(t, err)
	if !found {
		return nil
	}
	return cluster
}

func TestEdit_Commands(t *testing.T) {
	for name, tc := range map[string]struct {
		answer         string
		args           []string
		code           int
		out, problems  string
		size           int32
		version        string
		writes, exists bool
	}{
		"a yes on the terminal": {"y\n", []string{"scale", "demo", "all=3"}, 0, "Fields that differ:\n" +
			"  spec.rkeConfig.machinePools[0].quantity  Add\n", "Change cluster fleet-default/demo? [y/N] ", 3, "", true, true},
		"a no on the terminal": {"n\n", []string{"scale", "demo", "all=3"}, 1, "Add", "nothing was written", 2, "",
			false, true},
		"no terminal": {"", []string{"scale", "demo", "all=3"}, 1, "Add",
			"there is no terminal to ask on, and nothing " +
				"was written; --yes continues", 2, "", false, true},
		"consent on the command line": {"", []string{"scale", "demo", "all=3", "--yes"}, 0, "Add",
			"drover status demo -n fleet-default --watch follows it", 3, "", true, true},
		"a dry run": {"", []string{"scale", "demo", "all=3", "--dry-run"}, 2, "Add", "", 2, "", false, true},
		"a change to what is there": {"", []string{"scale", "demo", "all=2"}, 0, "Result:   None",
			"already has what you request", 2, "", false, true},
		"a change without servers": {"", []string{"scale", "demo", "all=0", "--yes"}, 1, "",
			"spec.rkeConfig.machinePools: Required value", 2, "", false, true},
		"no pool": {"", []string{"scale", "demo"}, 1, "", "POOL=N is missing; see 'drover scale --help'", 2, "", false,
			true},
		"a missing one": {"", []string{"scale", "absent", "all=1"}, 1, "", "there is no Cluster absent", 2, "", false,
			true},
		"a lone timeout": {"", []string{"scale", "demo", "all=3", "--timeout=1s"}, 1, "", "without --wait", 2, "",
			false, true},
		"as JSON": {"", []string{"scale", "demo", "all=3", "-y", "-ojson"}, 0, `"class": "Add"`, "", 3, "", true, true},
		"an upgrade": {"y\n", []string{"upgrade", "cluster", "demo", "--version", "v1.36.3+k3s1"}, 0, "", "is written",
			2, "v1.36.3+k3s1", true, true},
		"no version": {"", []string{"upgrade", "cluster", "demo"}, 1, "", "VERSION is missing", 2, "", false, true},
		"a wrong version": {"", []string{"upgrade", "cluster", "demo", "--version=v1.99.0+k3s1"}, 1, "",
			"k3s 1.33, 1.34, 1.35, 1.36", 2, "", false, true},
		"a deletion": {"demo\n", []string{"delete", "demo"}, 0, "Cluster:  fleet-default/demo",
			"Type the name of the cluster to delete it: ", 0, "", true, false},
		"a wrong name": {"dem\n", []string{"delete", "demo"}, 1, "", "the answer is not demo; nothing was written", 2,
			"", false, true},
		"a dry deletion": {"", []string{"delete", "demo", "--dry-run"}, 0, "Stays:\n  the credential cc\n", "", 2, "",
			false, true},
		"a sure deletion": {"", []string{"delete", "demo", "--yes", "--wait"}, 0, "", "The deletion of cluster " +
			"fleet-default/demo has begun", 0, "", true, false},
		"a blind deletion": {"", []string{"delete", "demo"}, 1, "", "there is no terminal to ask on", 2, "", false,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &editing{api: editable(t), answer: tc.answer}
				code, out, problems := e.run(tc.args...)
				if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(problems, tc.problems) {
					t.Errorf("exit code %d\n%s\n%s", code, out, problems)
				}
				if writes := e.api.Writes("drover"); (len(writes) == 1) != tc.writes || len(writes) > 1 {
					t.Errorf("writes: %v", writes)
				}
				cluster := demoOf(t, e.api)
				if (cluster != nil) != tc.exists {
					t.Fatalf("exists: %v", cluster != nil)
				}
				if cluster != nil && (*cluster.Spec.RKEConfig.MachinePools[0].Quantity != tc.size ||
					tc.version != "" && cluster.Spec.KubernetesVersion != tc.version) {
					t.Errorf("spec %+v", cluster.Spec)
				}
			})
		})
	}
}

// change edits Cluster demo as another user.
func (e *editing) change(t *testing.T, edit func(*provv1.Cluster), status bool) func() {
	t.Helper()
	c, err := clients.New(e.api.Config("other"), clients.Options{Version: "other", WithoutDynamic: true})
	check(t, err)
	return func() {
		defer c.Stop()
		cluster, err := c.Provisioning.Cluster().Get(defaultNamespace, "demo", metav1.GetOptions{})
		check(t, err)
		edit(cluster)
		if status {
			_, err = c.Provisioning.Cluster().UpdateStatus(cluster)
		} else {
			_, err = c.Provisioning.Cluster().Update(cluster)
		}
		check(t, err)
	}
}

// Another user changes the cluster between the preview and the answer.
func TestEdit_RefusesAChangedCluster(t *testing.T) {
	const changed = "the cluster has changed since the preview, and nothing was written"
	protect := func(c *provv1.Cluster) {
		c.Annotations = map[string]string{rkev1.ProtectAnnotation: "true"}
	}
	for name, tc := range map[string]struct {
		answer string
		args   []string
		change func(*provv1.Cluster)
		status bool
		want   string
	}{
		"a change of the spec": {"y\n", []string{"scale", "demo", "all=3"},
			func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(5)) }, false, changed},
		"a change of the status": {"y\n", []string{"scale", "demo", "all=3"},
			func(c *provv1.Cluster) { c.Status.Ready = true }, true, ""},
		"a protection before the deletion": {"demo\n", []string{"delete", "demo"}, protect, false, changed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &editing{api: editable(t), answer: tc.answer}
				e.asked = e.change(t, tc.change, tc.status)
				code, out, problems := e.run(tc.args...)
				if (code == 1) != (tc.want != "") || !strings.Contains(problems, tc.want) {
					t.Errorf("exit code %d\n%s\n%s", code, out, problems)
				}
				if writes := e.api.Writes("drover/" + Version); tc.want != "" && len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}

// The API server is asked once, whatever it answers. A write that another one has refused had no effect.
func TestEdit_WritesOnce(t *testing.T) {
	resource := schema.GroupResource{Group: "provisioning.cattle.io", Resource: "clusters"}
	busy := apierrors.NewServerTimeout(resource, "patch", 1)
	for name, tc := range map[string]struct {
		answer error
		args   []string
		want   string
		sent   int
	}{
		"conflicts": {apierrors.NewConflict(resource, "demo", errors.New("modified")),
			[]string{"scale", "demo", "all=3", "-y"}, "the cluster has changed since the preview", 3},
		"a server that cannot say": {busy, []string{"scale", "demo", "all=3", "-y"}, "it may have taken effect", 1},
		"a refusal": {apierrors.NewForbidden(resource, "demo", errors.New("not for you")),
			[]string{"scale", "demo", "all=3", "-y"}, "not for you", 1},
		"a deletion that may have happened": {busy, []string{"delete", "demo", "-y"}, "it may have taken effect", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, sent := &editing{api: editable(t)}, 0
				e.api.Intercept(func(r memkube.Request) error {
					if r.Verb == "patch" || r.Verb == "delete" {
						sent++
						return tc.answer
					}
					return nil
				})
				code, out, problems := e.run(tc.args...)
				if code != 1 || sent != tc.sent || !strings.Contains(problems, tc.want) {
					t.Errorf("exit code %d, sent %d times\n%s\n%s", code, sent, out, problems)
				}
			})
		})
	}
}

// Drover writes the status between the last read and the write. The next attempt names the newer version.
func TestEdit_PassesAStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		isGone bool
	}{
		"a change":   {[]string{"scale", "demo", "all=3", "-y"}, false},
		"a deletion": {[]string{"delete", "demo", "-y"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, sent := &editing{api: editable(t)}, 0
				e.api.Intercept(func(r memkube.Request) error {
					if r.Verb != "patch" && r.Verb != "delete" {
						return nil
					}
					if sent++; sent > 1 {
						return nil
					}
					return apierrors.NewConflict(r.Resource.GroupResource(), r.Name, errors.New("modified"))
				})
				code, out, problems := e.run(tc.args...)
				if demo := demoOf(t, e.api); code != 0 || sent != 2 || (demo == nil) != tc.isGone {
					t.Errorf("exit code %d, sent %d times: %v\n%s\n%s", code, sent, demo, out, problems)
				}
			})
		})
	}
}

func TestEdit_Protected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &editing{api: editable(t)}
		e.change(t, func(c *provv1.Cluster) {
			c.Annotations = map[string]string{rkev1.ProtectAnnotation: "true"}
		}, false)()
		code, out, problems := e.run("delete", "demo", "--yes")
		if code != 1 || !strings.Contains(problems, "is protected: remove its annotation drover.io/protect first") ||
			demoOf(t, e.api) == nil {
			t.Errorf("exit code %d\n%s\n%s", code, out, problems)
		}
	})
}

// With --wait, the command prints what drover status --watch prints, until the change is done.
func TestEdit_Waits(t *testing.T) {
	machines := func(t *testing.T, api *memkube.Server, n int) {
		t.Helper()
		for i := range n {
			m := build.Machine("demo", "m"+string(rune('a'+i)), "ecw", build.WithNode("n"))
			m.Labels[rkev1.MachinePoolNameLabel] = "all"
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition,
				Status: metav1.ConditionTrue}}
			check(t, api.Add(m))
		}
	}
	settled := func(status, message string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			c.Status.ObservedGeneration = c.Generation
			setReady(c, status, message)
		}
	}
	for name, tc := range map[string]struct {
		status, message string
		args            []string
		code            int
		want            string
	}{
		"until all machines run": {"True", "", nil, 0, "Cluster fleet-default/demo Ready\n"},
		"until it has failed": {"False", "no such image", nil, 1,
			"cluster fleet-default/demo failed: no such image"},
		"until the timeout": {"Unknown", "waiting for mc", []string{"--timeout=2m"}, 1, "not done within 2m0s, and " +
			"continues; drover status demo"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &editing{api: editable(t)}
				machines(t, e.api, 3)
				after := e.change(t, settled(tc.status, tc.message), true)
				time.AfterFunc(10*time.Second, after)
				code, out, problems := e.run(slices.Concat([]string{"scale", "demo", "all=3", "-y", "--wait"},
					tc.args)...)
				if code != tc.code || !strings.Contains(problems, tc.want) {
					t.Errorf("exit code %d\n%s\n%s", code, out, problems)
				}
			})
		})
	}
}
