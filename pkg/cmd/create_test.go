package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// creating runs drover create cluster with answers on a terminal, one for each question. Without answers, there is no
// terminal.
func creating(api *memkube.Server, answers []string, args ...string) (code int, out, problems string) {
	o := newEditOptions(nil, &inspectOptions{config: api.Config("creator")})
	o.isTerminal = func(io.Reader) bool { return len(answers) > 0 }
	o.terminal = func(io.Writer) *terminal { return nil }
	parent, root := &cobra.Command{Use: "create"}, &cobra.Command{Use: "drover", SilenceUsage: true}
	parent.AddCommand(newCreateCluster(o))
	root.AddCommand(parent)
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetIn(&lines{left: answers})
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	code = execute(ctx, root, append([]string{"create", "cluster"}, args...))
	return code, stdout.String(), stderr.String()
}

// lines gives one line to each read, as a terminal does.
type lines struct{ left []string }

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.left[0]+"\n")
	l.left = l.left[1:]
	return n, nil
}

func TestCreate_Commands(t *testing.T) {
	pool := []string{"demo", "--driver=pod", "--credential=cc", "--version=v1.36.3+k3s1",
		"--pool=all=1,roles=all,size=small"}
	with := func(more ...string) []string { return append(append([]string(nil), pool...), more...) }
	for name, tc := range map[string]struct {
		answers       []string
		args          []string
		code          int
		out, problems string
		exists        bool
	}{
		"a manifest": {nil, pool, 0,
			"kind: PodConfig\nmetadata:\n  name: demo-all\n  namespace: fleet-default\nsize: " +
				"small\n---\n",
			"", false},
		"missing values": {nil, []string{"demo", "--credential=cc"}, 1, "",
			"values are missing: --driver or --hosts, --version; see 'drover create cluster --help'", false},
		"answers to questions": {[]string{"pod", "cc", "v1.36.3+k3s1", "all=2,roles=all"}, []string{"demo"}, 0,
			"quantity: 2\n", "Secret with the credential, empty for none: ", false},
		"a driver without a credential": {nil, []string{"demo", "--driver=pod", "--version=v1.36.3+k3s1",
			"--pool=all=1,roles=all"}, 0, "spec:\n  kubernetesVersion: v1.36.3+k3s1\n", "", false},
		"an answer for existing hosts": {[]string{"hosts", "v1.36.3+k3s1"}, []string{"demo"}, 0, "machinePools: []\n",
			"Node driver, or hosts for existing hosts: ", false},
		"no name": {nil, nil, 1, "", "NAME is missing", false},
		"an unknown driver": {nil, []string{"demo", "--driver=sim", "--credential=cc", "--version=v1.36.3+k3s1",
			"--pool=all=1,roles=all"}, 1, "", "there is no driver sim, or it is not installed yet", false},
		"an unknown field": {nil, []string{"demo", "--driver=pod", "--credential=cc", "--version=v1.36.3+k3s1",
			"--pool=all=1,roles=all,color=red"}, 1, "", "the driver has no field color; its fields are size", false},
		"a creation": {[]string{"y"}, with("--apply"), 0, "kind: Cluster\n", "Create cluster fleet-default/demo? [y/N] ",
			true},
		"a refusal":          {[]string{"n"}, with("--apply"), 1, "kind: Cluster\n", "nothing was written", false},
		"no terminal":        {nil, with("--apply"), 1, "", "there is no terminal to ask on", false},
		"a wait for nothing": {nil, with("--wait"), 1, "", "--wait has no effect without --apply", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := management(t)
				code, out, problems := creating(api, tc.answers, tc.args...)
				if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(problems, tc.problems) {
					t.Errorf("exit code %d\n%s\n%s", code, out, problems)
				}
				if exists := demoOf(t, api) != nil; exists != tc.exists {
					t.Errorf("exists: %v", exists)
				}
				written := 0
				for _, entry := range api.Writes("drover") {
					if entry.Code < 300 {
						written++
					}
				}
				if tc.exists != (written > 0) {
					t.Errorf("writes: %v", api.Writes("drover"))
				}
			})
		})
	}
}

// Machines of existing hosts need the registration command, which exists a while after the cluster.
func TestCreate_PrintsTheRegistrationCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		check(t, api.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}}))
		named := (&editing{api: api}).change(t, func(c *provv1.Cluster) { c.Status.ClusterName = "c-m-1" }, true)
		time.AfterFunc(10*time.Second, func() {
			named()
			check(t, api.Add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "c-m-1", Name: "crt-token-default-token"},
				Data:       map[string][]byte{registration.KeyNodeCommand: []byte("curl x | sh -s -")}}))
		})
		code, out, problems := creating(api, nil, "demo", "--hosts", "--version=v1.36.3+k3s1", "--apply", "--yes")
		if code != 0 || !strings.Contains(problems, "curl x | sh -s - --etcd --controlplane --worker\n") {
			t.Errorf("exit code %d\n%s\n%s", code, out, problems)
		}
	})
}

func TestCreate_RefusesANameThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := editable(t)
		code, out, problems := creating(api, nil, "demo", "--driver=pod", "--credential=cc", "--version=v1.36.3+k3s1",
			"--pool=all=5,roles=all", "--apply", "--yes")
		if code != 1 || !strings.Contains(problems, "cluster fleet-default/demo exists, and nothing was written") ||
			len(api.Writes("drover")) > 0 {
			t.Errorf("exit code %d, %v\n%s\n%s", code, api.Writes("drover"), out, problems)
		}
	})
}

// The API server checks all objects before the first write. Its errors name the fields.
func TestCreate_ShowsErrorsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		api.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && r.Resource.Resource == "clusters" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "demo", field.ErrorList{
					field.Invalid(field.NewPath("spec", "rkeConfig"), "x", "is not for you")})
			}
			return nil
		})
		code, out, problems := creating(api, nil, "demo", "--driver=pod", "--credential=cc", "--version=v1.36.3+k3s1",
			"--pool=all=5,roles=all", "--apply", "--yes")
		configs := api.Objects(schema.GroupVersionKind{Group: "rke-machine-config.cattle.io", Version: "v1",
			Kind: "PodConfig"})
		if code != 1 || len(configs) > 0 || !strings.Contains(problems, "nothing was written: Cluster "+
			"fleet-default/demo is not valid:\n  spec.rkeConfig: Invalid value: \"x\": is not for you\n") {
			t.Errorf("exit code %d, %d machine configs\n%s\n%s", code, len(configs), out, problems)
		}
	})
}

// podDemo are the arguments for a cluster with a machine config.
func podDemo(size string, more ...string) []string {
	return append([]string{"demo", "--driver=pod", "--credential=cc", "--version=v1.36.3+k3s1",
		"--pool=all=1,roles=all,size=" + size, "--apply", "--yes"}, more...)
}

// A machine config that an attempt has left is no obstacle for the next one, unless it has other values.
func TestCreate_ContinuesAnAttempt(t *testing.T) {
	clusters := schema.GroupResource{Group: "provisioning.cattle.io", Resource: "clusters"}
	for name, failure := range map[string]error{
		"refused": apierrors.NewForbidden(clusters, "demo", errors.New("the quota is used")),
		"unknown": apierrors.NewServerTimeout(clusters, "create", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, sent := management(t), 0
				path := filepath.Join(t.TempDir(), "demo.yaml")
				api.Intercept(func(r memkube.Request) error {
					if r.Verb == "create" && r.Resource.Resource == "clusters" {
						sent++
					}
					if sent == 2 { // behind the dry-run
						return failure
					}
					return nil
				})
				code, out, problems := creating(api, nil, podDemo("small", "-f", path)...)
				const said = "only a part is written: PodConfig fleet-default/demo-all; create Cluster " +
					"fleet-default/demo: "
				if code != 1 || !strings.Contains(problems, said) ||
					!strings.Contains(problems, "; run the same command again to complete the cluster\n") {
					t.Errorf("exit code %d\n%s\n%s", code, out, problems)
				}
				api.Intercept(nil)
				code, _, problems = creating(api, nil, podDemo("large")...)
				if code != 1 || !strings.Contains(problems, "nothing was written: PodConfig fleet-default/demo-all "+
					"exists, with other values or with an owner") || demoOf(t, api) != nil {
					t.Errorf("exit code %d\n%s", code, problems)
				}
				code, out, problems = creating(api, nil, podDemo("small", "-f", path)...)
				if code != 0 || demoOf(t, api) == nil {
					t.Errorf("exit code %d\n%s\n%s", code, out, problems)
				}
			})
		})
	}
}

// A machine config of another cluster is not shared.
func TestCreate_KeepsConfigsWithAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rke-machine-config.cattle.io/v1",
			"kind": "PodConfig", "size": "small"}}
		config.SetNamespace(defaultNamespace)
		config.SetName("demo-all")
		config.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster",
			Name: "other", UID: "1"}})
		check(t, api.Add(config))
		code, _, problems := creating(api, nil, podDemo("small")...)
		if code != 1 || demoOf(t, api) != nil || !strings.Contains(problems, "PodConfig fleet-default/demo-all") {
			t.Errorf("exit code %d\n%s", code, problems)
		}
	})
}

func TestCreate_KeepsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kept.yaml")
		check(t, os.WriteFile(path, []byte("kept"), 0o600))
		code, _, problems := creating(management(t), nil, "demo", "--hosts", "--version=v1.36.3+k3s1", "-f", path)
		kept, err := os.ReadFile(path)
		check(t, err)
		if code != 1 || string(kept) != "kept" ||
			!strings.Contains(problems, "kept.yaml exists; choose another name, or remove the file") {
			t.Errorf("exit code %d, file %q\n%s", code, kept, problems)
		}
	})
}

// The cluster is created, so an unreadable registration command ends neither the command nor the wait.
func TestCreate_NeedsNoRegistrationCommand(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		answer error
		// failures is how many reads fail.
		failures int
		want     string
		reads    int
	}{
		"a server that is busy": {apierrors.NewServiceUnavailable("busy"), 2, "curl x | sh -s - --etcd", 3},
		"no permission": {apierrors.NewForbidden(secrets, "crt-token-default-token", errors.New("not for you")), 9,
			"The registration command cannot be read: ", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, reads := management(t), 0
				check(t, api.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
					ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}}, &corev1.Secret{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "c-m-1", Name: "crt-token-default-token"},
					Data:       map[string][]byte{registration.KeyNodeCommand: []byte("curl x | sh -s -")}}))
				name := func(c *provv1.Cluster) { c.Status.ClusterName = "c-m-1" }
				named := (&editing{api: api}).change(t, name, true)
				time.AfterFunc(time.Second, named)
				api.Intercept(func(r memkube.Request) error {
					if r.Resource.Resource != "secrets" || r.Namespace != "c-m-1" {
						return nil
					}
					if reads++; reads <= tc.failures {
						return tc.answer
					}
					return nil
				})
				code, out, problems := creating(api, nil, "demo", "--hosts", "--version=v1.36.3+k3s1", "--apply",
					"--yes")
				if code != 0 || reads != tc.reads || !strings.Contains(problems, tc.want) ||
					!strings.Contains(problems, "drover status demo -n fleet-default --watch follows it") {
					t.Errorf("exit code %d, %d reads\n%s\n%s", code, reads, out, problems)
				}
			})
		})
	}
}
