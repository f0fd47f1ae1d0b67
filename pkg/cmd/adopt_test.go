package cmd

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// theirs is a management cluster with instances of Drover, and with a cluster of another manager that has no machines.
func theirs(t *testing.T, mark string, instances ...string) *memkube.Server {
	t.Helper()
	api := provisioned(t)
	check(t, api.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: controllers.SettingsNamespace}}))
	for _, instance := range instances {
		published := controllers.Settings{}.ConfigMap(instance)
		published.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		check(t, api.Add(published))
	}
	cluster := theirCluster(t, api)
	cluster.TypeMeta = metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"}
	cluster.Spec.RKEConfig.MachinePools = nil
	cluster.Status.ClusterName = "c-m-1"
	if mark != "" {
		cluster.Annotations = map[string]string{rkev1.InstanceAnnotation: mark}
	}
	check(t, api.Add(cluster))
	check(t, api.Add(&clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"},
	}))
	return api
}

func theirCluster(t *testing.T, api *memkube.Server) *provv1.Cluster {
	t.Helper()
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "demo"}}
	if found, err := api.Get(cluster); err != nil || !found {
		t.Fatal(err)
	}
	return cluster
}

func TestAdopt_LooksThenTakesThenReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := theirs(t, "", "mine")
		code, out, problems := look(t, api, "adopt", "demo")
		if code != 0 || !strings.Contains(out, "a manager that leaves no mark") ||
			!strings.Contains(out, "--from rancher") || len(api.Writes("drover")) > 0 {
			t.Errorf("exit code %d, writes %v\n%s%s", code, api.Writes("drover"), out, problems)
		}
		if code, _, problems = look(t, api, "adopt", "demo", "--yes"); code != 1 ||
			!strings.Contains(problems, "nothing was written") || len(api.Writes("drover")) > 0 {
			t.Errorf("exit code %d: %s", code, problems)
		}
		for range 2 { // the second time changes nothing
			if code, _, problems = look(t, api, "adopt", "demo", "--yes", "--from", "rancher"); code != 0 ||
				len(api.Writes("drover")) != 1 {
				t.Errorf("exit code %d, writes %v: %s", code, api.Writes("drover"), problems)
			}
		}
		if got := theirCluster(t, api).Annotations[rkev1.InstanceAnnotation]; got != "mine" {
			t.Errorf("managed by %q", got)
		}
		if code, _, problems = look(t, api, "adopt", "demo", "--release"); code != 1 ||
			!strings.Contains(problems, "add --yes to release it") {
			t.Errorf("exit code %d: %s", code, problems)
		}
		if code, _, problems = look(t, api, "adopt", "demo", "--release", "--yes"); code != 0 {
			t.Errorf("exit code %d: %s", code, problems)
		}
		if diff := cmp.Diff(map[string]string{rkev1.ReleasedByAnnotation: "mine"},
			theirCluster(t, api).Annotations); diff != "" {
			t.Errorf("released (-want +got):\n%s", diff)
		}
		if code, out, _ = look(t, api, "adopt", "demo", "-o", "json"); code != 0 ||
			!strings.Contains(out, `"owner": "Released"`) {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

// The adopting user becomes the author of references to Secrets of other namespaces, if admission can record that.
func TestAdopt_SecretsOfOtherNamespaces(t *testing.T) {
	hooks := &admissionv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1",
			Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "drover"},
	}
	for name, tc := range map[string]struct {
		offer   map[string]string
		hooks   bool
		denied  bool // the adopting user may not get the Secret
		refused string
		renews  bool
	}{
		"admission does not note it": {
			refused: "kubectl -n cattle-global-data annotate secret cc rke.cattle.io/object-authorized-for-clusters=" +
				defaultNamespace + "/demo"},
		"admission notes it": {hooks: true, renews: true},
		"the adopter may not get it": {hooks: true, denied: true,
			refused: "spec.cloudCredentialSecretName: you may not get Secret cattle-global-data/cc"},
		"offered": {offer: map[string]string{rkev1.AuthorizedObjectAnnotation: defaultNamespace + "/*"}},
		"offered to another": {offer: map[string]string{rkev1.AuthorizedObjectAnnotation: defaultNamespace + "/other"},
			refused: "annotate secret cc"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := theirs(t, "", "mine")
				cluster := theirCluster(t, api)
				cluster.TypeMeta = metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"}
				cluster.Spec.CloudCredentialSecretName = "cattle-global-data:cc"
				check(t, api.Add(cluster))
				check(t, api.Add(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
					ObjectMeta: metav1.ObjectMeta{Name: "cattle-global-data"}}))
				check(t, api.Add(&corev1.Secret{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc", Annotations: tc.offer},
				}))
				if tc.hooks {
					check(t, api.Add(hooks.DeepCopy()))
				}
				if tc.denied {
					api.Intercept(func(r memkube.Request) error {
						if r.Verb == "get" && r.Resource.Resource == "secrets" && r.Namespace == "cattle-global-data" {
							return apierrors.NewForbidden(corev1.Resource("secrets"), r.Name, nil)
						}
						return nil
					})
				}
				code, out, problems := look(t, api, "adopt", "demo", "--yes", "--from", "rancher")
				if (code != 0) != (tc.refused != "") || !strings.Contains(out, tc.refused) {
					t.Errorf("exit code %d, want %q:\n%s%s", code, tc.refused, out, problems)
				}
				if told := strings.Contains(out,
					"the cluster may use Secret cattle-global-data/cc while that user may get it"); told != tc.renews {
					t.Errorf("the output says that the adopter becomes the author: %t", told)
				}
				if asked := theirCluster(t,
					api).Annotations[rkev1.GrantsAnnotation]; (asked == rkev1.GrantsRenew) != tc.renews {
					t.Errorf("grants are %q", asked)
				}
			})
		})
	}
}

func TestAdopt_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		mark      string
		instances []string
		args      []string
		want      string
	}{
		"no server has ever run": {args: []string{"demo"},
			want: "no server of Drover has published its settings"},
		"several servers": {instances: []string{"a", "b"}, args: []string{"demo"},
			want: "with --to: a, b"},
		"a server that has never run": {instances: []string{"a"}, args: []string{"demo", "--to", "b"},
			want: `instance "b"`},
		"release of an unmarked cluster": {instances: []string{"a"}, args: []string{"demo", "--release", "--yes"},
			want: "there is no mark to remove"},
		"a missing cluster": {instances: []string{"a"}, args: []string{"absent"},
			want: "there is no Cluster absent in namespace fleet-default"},
		"adopt and release together": {args: []string{"demo", "--release", "--from", "rancher"},
			want: "none of the others can be"},
		"no cluster": {want: "CLUSTER is missing; see 'drover adopt --help'"},
		"a release without --yes": {mark: "a", instances: []string{"a"}, args: []string{"demo", "--release"},
			want: "add --yes to release it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := theirs(t, tc.mark, tc.instances...)
				code, out, problems := look(t, api, append([]string{"adopt"}, tc.args...)...)
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

func TestAdopt_CompletesNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if code, out, _ := look(t, theirs(t, "", "a"), cobraComplete, "adopt", ""); code != 0 ||
			!strings.HasPrefix(out, "demo\n") {
			t.Errorf("%d %q", code, out)
		}
	})
}

func TestPrintAdoption(t *testing.T) {
	a := inspect.Adoption{
		Cluster: "a/demo", Owner: inspect.OwnerUnmarked, Instance: "mine", Result: planner.ClassReplace,
		Activity: &inspect.Activity{Writer: "rancher", What: "the RKEControlPlane",
			At: metav1.NewTime(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))},
		Machines: []inspect.AdoptedMachine{
			{Machine: preview.Machine{Name: "s1", Pool: "server", Roles: "etcd", Class: planner.ClassNone},
				AsFound: true, Next: planner.ClassRestart, InitNode: true},
			{Machine: preview.Machine{Name: "w1", Pool: "others", Roles: "worker", Class: planner.ClassReplace,
				Drained: true, Stage: 1}, Next: planner.ClassNone},
		},
		Order: []preview.Stage{{Name: "pool worker", Pace: "all at once", Machines: []string{"w1"}}},
		Objects: []inspect.ObjectChange{
			{Kind: "MachineDeployment", Name: "demo-worker", Verb: applyset.Update, Class: planner.ClassReplace,
				Fields: []preview.Cause{{Field: "spec.template.spec.infrastructureRef.name",
					Class: planner.ClassReplace}}},
			{Kind: "SimMachineTemplate", Name: "demo-worker-1", Verb: applyset.Create, Class: planner.ClassNone},
		},
	}
	want := `Cluster:       a/demo
Managed by:    a manager that leaves no mark, usually Rancher
Adopted by:    instance mine
Last written:  the RKEControlPlane, by rancher, 2026-09-01T12:00:00Z
Result:        Replace

Machines:
  NAME  POOL    ROLES   CLASS    DRAIN  STAGE  PLAN      NEXT     MESSAGE
  s1    server  etcd    None     no     -      as found  Restart  init node
  w1    others  worker  Replace  yes    1      Drover's  None     -

Objects that differ:
  VERB    KIND                NAME           CLASS    FIELD
  Update  MachineDeployment   demo-worker    Replace  spec.template.spec.infrastructureRef.name
  Create  SimMachineTemplate  demo-worker-1  None     -

Order:
  STAGE  GROUP        PACE         MACHINES
  1      pool worker  all at once  w1

Reasons against --yes:
  machines would be replaced, added or removed: w1; --allow-replace permits that
`
	var out bytes.Buffer
	o := inspectOptions{output: outputTable}
	check(t, o.print(&out, a, func(w io.Writer) {
		printAdoption(w, a, adopt.Check(a, adopt.Limits{From: adopt.FromRancher, Now: a.Activity.At.Add(time.Hour)}))
	}))
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAdoptVerdict(t *testing.T) {
	for class, want := range map[planner.Class]int{
		planner.ClassNone: 0, planner.ClassInPlace: 2, planner.ClassRestart: 2, planner.ClassAdd: 3,
		planner.ClassRemove: 3, planner.ClassReplace: 3,
	} {
		code, _ := adoptVerdict(NewCommand(nil), inspect.Adoption{Result: class}).(exitError) //nolint:errorlint // it is returned as it is
		if int(code) != want {
			t.Errorf("%s: exit code %d, want %d", class, code, want)
		}
	}
	if err := adoptVerdict(NewCommand(nil), inspect.Adoption{Problems: []string{"x"}}); err == nil ||
		!strings.Contains(err.Error(), "cannot be adopted") {
		t.Errorf("error %v", err)
	}
}
