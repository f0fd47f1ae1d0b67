package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const newCluster = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
spec:
  kubernetesVersion: v1.36.2+k3s1
  cloudCredentialSecretName: cc
  rkeConfig:
    machinePools:
    - name: all
      quantity: 2
      etcdRole: true
      controlPlaneRole: true
      workerRole: true
      machineConfigRef: {kind: PodConfig, name: demo-all}
---
apiVersion: rke-machine-config.cattle.io/v1
kind: PodConfig
metadata:
  name: demo-all
size: small
`

// management is a management cluster with a node driver, a credential and a cluster without a control plane.
func management(t *testing.T) *memkube.Server {
	t.Helper()
	scheme, err := clients.NewScheme()
	check(t, err)
	spec := mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"size": {Type: "string"}}}
	api := memkube.New(memkube.Options{Scheme: scheme, CRDs: driverschema.CRDs("pod", spec),
		Namespaces: []string{defaultNamespace}})
	for _, object := range []runtime.Object{
		&mgmtv3.DynamicSchema{TypeMeta: metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "DynamicSchema"},
			ObjectMeta: metav1.ObjectMeta{Name: "podconfig"}, Spec: spec},
		&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "cc"}},
		&provv1.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "young"},
			Status: provv1.ClusterStatus{Conditions: []rkev1.GenericCondition{{Type: "Updated", Status: "False",
				Reason: "Error", Message: "spec.kubernetesVersion:\nRequired value"}}},
		},
	} {
		check(t, api.Add(object))
	}
	return api
}

// look runs one of the commands and returns its exit code and both outputs.
func look(t *testing.T, api *memkube.Server, args ...string) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := NewCommand(nil)
	for _, cmd := range root.Commands() {
		if slices.Contains([]string{"adopt", "diagnose", "explain", "logs", "preview", "roll", "rotate", "snapshot",
			"support-bundle"}, cmd.Name()) {
			root.RemoveCommand(cmd)
		}
	}
	o := inspectOptions{config: api.Config("looker")}
	second, third, fourth, fifth, sixth, seventh, eighth, ninth := o, o, o, o, o, o, o, o
	root.AddCommand(newExplainCommand(nil, &o), newPreviewCommand(nil, &second), newRollCommand(nil, &third),
		newDiagnoseCommand(nil, &fourth),
		newSupportBundleCommand(nil, &fifth), newAdoptCommand(nil, &sixth), newSnapshotCommand(nil, &seventh),
		newRotateCommand(nil, &eighth), newLogsCommand(nil, &ninth))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(context.Background(), root, args)
	return code, stdout.String(), stderr.String()
}

func TestExplain_ShowsConditionsWithoutAControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		code, out, problems := look(t, api, "explain", "young")
		want := `Cluster:        fleet-default/young
Managed by:     no instance yet; check that a Drover server runs
Settings:       not the server's; it has not published them
Control plane:  does not exist yet

Conditions of the Cluster:
  TYPE     STATUS  REASON  MESSAGE
  Updated  False   Error   spec.kubernetesVersion: Required value
`
		if diff := cmp.Diff(want, out); diff != "" || code != 0 {
			t.Errorf("exit code %d, %s (-want +got):\n%s", code, problems, diff)
		}
		code, _, problems = look(t, api, "explain", "absent")
		if code != 1 ||
			!strings.Contains(problems, "there is no Cluster absent in namespace fleet-default; -n names another one") {
			t.Errorf("exit code %d, %q", code, problems)
		}
		code, out, _ = look(t, api, cobraComplete, "explain", "")
		if code != 0 || !strings.HasPrefix(out, "young\n") {
			t.Errorf("completion: %d %q", code, out)
		}
		if writes := api.Writes("drover"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
}

// cobraComplete is the hidden command that shells call.
const cobraComplete = "__complete"

func TestPreview_Commands(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		args []string
		code int
		want string
	}{
		"a new cluster": {newCluster, nil, 2, "Result:   Add"},
		"an unknown field": {strings.Replace(newCluster, "quantity: 2", "amount: 2", 1), nil, 1,
			`unknown field "spec.rkeConfig.machinePools[0].amount"`},
		"a repeated field": {strings.Replace(newCluster, "quantity: 2", "quantity: 2\n      quantity: 3", 1), nil,
			1, `key "quantity" already set`},
		"an invalid version": {strings.Replace(newCluster, "v1.36.2+k3s1", "latest", 1), nil, 1,
			`spec.kubernetesVersion: Invalid value: "latest": must be v and a semantic version`},
		"a missing credential": {strings.Replace(newCluster, "SecretName: cc", "SecretName: dd", 1), nil, 1,
			`spec.cloudCredentialSecretName: Not found: "dd": no Secret dd in namespace fleet-default`},
		"two namespaces": {strings.Replace(newCluster, "  name: demo\n", "  name: demo\n  namespace: a\n", 1),
			[]string{"-n", "b"}, 1, "is in namespace a, not in b"},
		"without a Cluster": {"kind: ConfigMap\napiVersion: v1\n", nil, 1,
			"the file has no Cluster of provisioning.cattle.io/v1"},
		"two Clusters":       {newCluster + "---\n" + newCluster, nil, 1, "several Clusters"},
		"an unreadable file": {"{", nil, 1, "read the file"},
		"an unknown output": {newCluster, []string{"-o", "xml"}, 1,
			`--output: "xml" is unknown; use table, json or yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "cluster.yaml", tc.file)
			synctest.Test(t, func(t *testing.T) {
				code, out, problems := look(t, management(t),
					append([]string{"preview", "-f", path, "-n", defaultNamespace}, tc.args...)...)
				if code != tc.code || !strings.Contains(out+problems, tc.want) {
					t.Errorf("exit code %d, want %d; output, want %q:\n%s%s", code, tc.code, tc.want, out, problems)
				}
			})
		})
	}
}

func TestPreview_JSON(t *testing.T) {
	path := write(t, "cluster.yaml", newCluster)
	synctest.Test(t, func(t *testing.T) {
		code, out, problems := look(t, management(t), "preview", "-f", path, "-n", defaultNamespace, "-o", "json")
		report := preview.Report{}
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != 2 || problems != "" {
			t.Fatalf("exit code %d, %v, %q:\n%s", code, err, problems, out)
		}
		line := preview.Machine{Pool: "all", Roles: "etcd,control-plane,worker", Class: planner.ClassAdd, Stage: 1}
		if diff := cmp.Diff([]preview.Machine{line, line}, report.Machines); diff != "" || !report.New {
			t.Errorf("machines (-want +got):\n%s", diff)
		}
	})
}

// YAML output has the same content as JSON output.
func TestOutput_YAMLEqualsJSON(t *testing.T) {
	path := write(t, "cluster.yaml", newCluster)
	for name, args := range map[string][]string{
		"explain": {"explain", "demo"}, "preview": {"preview", "-n", defaultNamespace, "-f", path},
		"roll":  {"roll", "demo", "--dry-run"},
		"adopt": {"adopt", "demo"}, "snapshot list": {"snapshot", "list", "demo"},
		"images": {"images", "--kubernetes-version", "v1.36.2+k3s1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := provisioned(t)
				if name == "adopt" {
					api = theirs(t, "a", "a")
				}
				var asJSON, asYAML any
				wantCode, out, problems := look(t, api, append(args, "-o", "json")...)
				if err := json.Unmarshal([]byte(out), &asJSON); err != nil {
					t.Fatalf("%v: %s%s", err, out, problems)
				}
				code, out, _ := look(t, api, append(args, "-o", "yaml")...)
				check(t, yaml.Unmarshal([]byte(out), &asYAML))
				if diff := cmp.Diff(asJSON, asYAML); diff != "" || code != wantCode || strings.HasPrefix(out, "{") {
					t.Errorf("exit code %d, want %d (-json +yaml):\n%s", code, wantCode, diff)
				}
			})
		})
	}
}

func TestVerdict(t *testing.T) {
	for class, want := range map[planner.Class]int{
		planner.ClassNone: 0, planner.ClassInPlace: 2, planner.ClassRestart: 2, planner.ClassAdd: 2,
		planner.ClassRemove: 2, planner.ClassReplace: 3,
	} {
		root := NewCommand(nil)
		err := verdict(root, preview.Report{Result: class})
		code, _ := err.(exitError) //nolint:errorlint // it is returned as it is
		if int(code) != want {
			t.Errorf("%s: exit code %d, want %d", class, code, want)
		}
	}
	if err := verdict(NewCommand(nil), preview.Report{Machines: []preview.Machine{{Problem: "too large"}}}); err ==
		nil || !strings.Contains(err.Error(), "cannot make plans for 1 machines") {
		t.Errorf("error %v", err)
	}
}

func TestPrintReport(t *testing.T) {
	var out bytes.Buffer
	field := preview.Cause{Field: "spec.kubernetesVersion", Class: planner.ClassRestart}
	r := preview.Report{
		Cluster: "a/demo", Result: planner.ClassRestart,
		Machines: []preview.Machine{
			{Name: "s1", Pool: "server", Roles: "etcd", Class: planner.ClassRestart, Stage: 1, Drained: true,
				Causes: []preview.Cause{field}},
			{Name: "w1", Pool: "other", Roles: "worker", Class: planner.ClassNone, Held: "is being deleted"},
		},
		Order:  []preview.Stage{{Name: "bootstrap", Pace: "one at a time", Machines: []string{"s1"}}},
		Fields: []preview.Cause{field}, Notes: []string{"the cluster is paused"},
	}
	o := inspectOptions{output: outputTable}
	check(t, o.print(&out, r, func(w io.Writer) { printReport(w, r) }))
	want := `Cluster:  a/demo
Result:   Restart

Machines:
  NAME  POOL    ROLES   CLASS    DRAIN  STAGE  CAUSE
  s1    server  etcd    Restart  yes    1      spec.kubernetesVersion
  w1    other   worker  None     no     -      held: is being deleted

Order:
  STAGE  GROUP      PACE           MACHINES
  1      bootstrap  one at a time  s1

Fields that differ:
  spec.kubernetesVersion  Restart

Notes:
  the cluster is paused
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// Flags and the environment override only the published settings that they set.
func TestInspectOptions_OverridePublishedSettings(t *testing.T) {
	published := controllers.Settings{
		SystemDefaultRegistry: "theirs", SystemDefaultRegistryPullSecrets: []string{"theirs"},
		SystemAgentInstallerImage: "theirs-", ServerURL: "https://theirs",
	}
	for name, tc := range map[string]struct {
		args, environ []string
		want          func(s *controllers.Settings)
	}{
		"no flag": {want: func(*controllers.Settings) {}},
		"a flag": {args: []string{"--system-default-registry", "mine"}, want: func(s *controllers.Settings) {
			s.SystemDefaultRegistry = "mine"
		}},
		"an empty flag": {args: []string{"--system-default-registry="}, want: func(s *controllers.Settings) {
			s.SystemDefaultRegistry = ""
		}},
		"a list": {args: []string{"--system-default-registry-pull-secrets", "a,b"},
			want: func(s *controllers.Settings) { s.SystemDefaultRegistryPullSecrets = []string{"a", "b"} }},
		"a variable": {environ: []string{"DROVER_SYSTEM_AGENT_INSTALLER_IMAGE=mine-"},
			want: func(s *controllers.Settings) { s.SystemAgentInstallerImage = "mine-" }},
	} {
		t.Run(name, func(t *testing.T) {
			o := &inspectOptions{}
			cmd := newExplainCommand(nil, o)
			check(t, cmd.ParseFlags(tc.args))
			check(t, o.complete(cmd, tc.environ))
			got, want := published, published
			o.given(&got)
			tc.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}
