package bootstrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/connect"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// ofMachine returns the names of all objects of one machine.
func ofMachine(name string) []string {
	return []string{
		"Secret " + name + "-machine-bootstrap", "Secret " + name + "-machine-bootstrap-token", "Secret " + name +
			"-machine-plan",
		"ServiceAccount " + name + "-machine-bootstrap", "ServiceAccount " + name + "-machine-plan",
		"Role " + name + "-machine-plan", "RoleBinding " + name + "-machine-plan",
	}
}

func (w *world) wantMade(names ...string) {
	w.Helper()
	count := map[string]int{}
	for _, name := range names {
		for _, object := range ofMachine(name) {
			count[object]++
		}
	}
	for _, object := range w.made() {
		count[object]--
	}
	for object, n := range count {
		if n != 0 {
			w.Errorf("%s: %d are missing (a negative number: too many)", object, n)
		}
	}
}

// TestStory_MachineGetsChannelIdentityAndData: a machine gets every object that other programs rely on.
func TestStory_MachineGetsChannelIdentityAndData(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{
			name: "m1", labels: map[string]string{"env": "prod"},
			annotations: map[string]string{rkev1.TaintsAnnotation: "[]",
				"kubectl.kubernetes.io/last-applied-configuration": "{}"},
		})
		w.settle()
		w.wantMade("m1")
		boot := w.bootstrap("m1")

		plan := w.secret("m1-machine-plan")
		wantLabels := map[string]string{
			"rke.cattle.io/machine-name": "m1", "rke.cattle.io/cluster-name": "demo",
			"resources.cattle.io/backup":   "true",
			"plan.cattle.io/machine-group": "cluster.x-k8s.io", "plan.cattle.io/machine-kind": "Machine",
			"plan.cattle.io/machine-name":  "m1",
			"plan.cattle.io/cluster-group": "cluster.x-k8s.io", "plan.cattle.io/cluster-kind": "Cluster",
			"plan.cattle.io/cluster-name":   "demo",
			"cluster.x-k8s.io/cluster-name": "demo", "env": "prod",
		}
		if diff := cmp.Diff(wantLabels, plan.Labels); diff != "" {
			t.Errorf("labels of the plan Secret (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{rkev1.TaintsAnnotation: "[]"}, plan.Annotations); diff != "" {
			t.Errorf("annotations of the plan Secret (-want +got):\n%s", diff)
		}
		if plan.Type != "rke.cattle.io/machine-plan" || len(plan.Data) != 0 {
			t.Errorf("plan Secret has type %s and %d keys", plan.Type, len(plan.Data))
		}

		data := w.secret("m1-machine-bootstrap")
		if data.Type != "rke.cattle.io/bootstrap" || data.Labels[clusterv1.ClusterNameLabel] != "demo" {
			t.Errorf("bootstrap data have type %s and labels %v", data.Type, data.Labels)
		}
		if _, ok := data.Data["format"]; ok {
			t.Error("a script has a cloud-init format")
		}
		owner := []metav1.OwnerReference{{
			APIVersion: "rke.cattle.io/v1", Kind: "RKEBootstrap", Name: "m1", UID: boot.UID, Controller: new(true),
			BlockOwnerDeletion: new(true),
		}}
		for _, secret := range []*corev1.Secret{plan, data} {
			if diff := cmp.Diff(owner, secret.OwnerReferences); diff != "" {
				t.Errorf("owners of Secret %s (-want +got):\n%s", secret.Name, diff)
			}
		}
		status := rkev1.RKEBootstrapStatus{
			DataSecretName: new("m1-machine-bootstrap"),
			Initialization: rkev1.RKEBootstrapInitialization{DataSecretCreated: new(true)},
			Conditions: []metav1.Condition{{Type: rkev1.ConditionReady, Status: metav1.ConditionTrue,
				Reason: "Ready", ObservedGeneration: 1}},
		}
		if diff := cmp.Diff(status, boot.Status,
			cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		w.checkAccounts()
		w.checkScript()
	})
}

func (w *world) checkAccounts() {
	w.Helper()
	plan := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1-machine-plan"}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1-machine-bootstrap"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1-machine-plan"}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1-machine-plan"}}
	if !w.read(plan) || !w.read(account) || !w.read(role) || !w.read(binding) {
		w.Fatal("accounts and roles are incomplete")
	}
	for _, label := range []struct {
		of        *corev1.ServiceAccount
		key, want string
	}{
		{plan, "rke.cattle.io/machine-name", "m1"}, {plan, "rke.cattle.io/rkebootstrap-name", "m1"},
		{plan, "rke.cattle.io/service-account-role", "plan"},
		{plan, "rke.cattle.io/plan-secret-name", "m1-machine-plan"},
		{account, "rke.cattle.io/machine-name", "m1"}, {account, "rke.cattle.io/rkebootstrap-name", "m1"},
		{account, "rke.cattle.io/service-account-role", "bootstrap"},
	} {
		if got := label.of.Labels[label.key]; got != label.want {
			w.Errorf("label %s of account %s is %q, want %q", label.key, label.of.Name, got, label.want)
		}
	}
	rules := []rbacv1.PolicyRule{{
		Verbs: []string{"watch", "get", "update", "list"}, APIGroups: []string{""}, Resources: []string{"secrets"},
		ResourceNames: []string{"m1-machine-plan"},
	}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		w.Errorf("rules of the agent (-want +got):\n%s", diff)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "m1-machine-plan", Namespace: namespace}}
	if diff := cmp.Diff(subjects, binding.Subjects); diff != "" || binding.RoleRef.Name != role.Name {
		w.Errorf("the RoleBinding has the wrong subject (-want +got):\n%s", diff)
	}
	token := w.secret("m1-machine-bootstrap-token")
	if token.Type != corev1.SecretTypeServiceAccountToken ||
		token.Annotations["rke.cattle.io/bootstrap-token"] != "true" ||
		token.Labels["cattle.io/service-account.name"] != "m1-machine-bootstrap" {
		w.Errorf("token is %s with labels %v and annotations %v", token.Type, token.Labels, token.Annotations)
	}
	if owner := metav1.GetControllerOf(token); owner == nil || owner.UID != account.UID {
		w.Errorf("token belongs to %+v, not to its account", owner)
	}
	if got, want := account.Annotations["rancher.io/service-account.secret-ref"], namespace+"/"+
		token.Name; got != want {
		w.Errorf("account refers to token %q, want %q", got, want)
	}
}

// checkScript fails unless the script has the token's digest, and only the Secret has the token.
func (w *world) checkScript() {
	w.Helper()
	script, token := w.data("m1"), w.secret("m1-machine-bootstrap-token").Data[corev1.ServiceAccountTokenKey]
	if len(token) == 0 || strings.Contains(script, string(token)) {
		w.Errorf("the script contains the account's token of %d bytes", len(token))
	}
	for _, want := range []string{naming.TokenHash(string(token)), "https://drover.example.org'", "CATTLE_CA_CHECKSUM",
		"echo install", "STRICT_VERIFY"} {
		if !strings.Contains(script, want) {
			w.Errorf("the script lacks %q", want)
		}
	}
	if strings.Contains(script, "https://drover.example.org/'") {
		w.Error("the server's URL has a trailing slash")
	}
}

var tokenInScript = regexp.MustCompile(`CATTLE_TOKEN=['"]?([A-Za-z0-9_=-]+)`)

// TestStory_EndpointForMachinesTakesTheToken: package connect exchanges this controller's token for the account that
// reads the plan, until the token is invalidated.
func TestStory_EndpointForMachinesTakesTheToken(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{name: "m1"})
		w.add(machine{name: "m2"})
		w.settle()
		handler, stop := w.endpoint()
		defer stop()
		token := tokenInScript.FindStringSubmatch(w.data("m1"))
		if token == nil {
			t.Fatalf("no token in the script")
		}
		code, connection := introduce(t, handler, token[1])
		if code != http.StatusOK || connection.SecretName != "m1-machine-plan" || connection.Namespace != namespace {
			t.Fatalf("answer %d with plan Secret %s/%s", code, connection.Namespace, connection.SecretName)
		}
		if !strings.Contains(connection.KubeConfig,
			string(w.secret("m1-machine-plan-token").Data[corev1.ServiceAccountTokenKey])) {
			t.Error("the connection does not carry the token of the plan account")
		}
		w.settle()
		if w.secret("m1-machine-bootstrap-token").Annotations[rkev1.LastAccessAnnotation] == "" {
			t.Error("the use is not recorded")
		}
		w.reports("m1")
		w.elapse(w.setup.ReusedTTL + time.Second)
		if w.secret("m1-machine-bootstrap-token").Annotations[rkev1.BootstrapTokenInvalidatedAnnotation] != "true" {
			t.Error("the token is valid although it has expired")
		}
		if code, _ := introduce(t, handler, token[1]); code != http.StatusUnauthorized {
			t.Errorf("the endpoint answers an invalidated token with %d", code)
		}
	})
}

// endpoint is killed together with the manager, because both are one process.
func (w *world) endpoint() (http.Handler, func()) {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "manager-endpoint"})
	must(w.T, err)
	handler, err := connect.New(connect.Options{
		ServerURL: "https://drover.example.org", Upstream: &rest.Config{Host: "https://127.0.0.1:1"},
		Binary:      "/bin/true",
		SecretCache: c.Core.Secret().Cache(), SecretClient: c.Core.Secret(),
		ServiceAccountCache: c.Core.ServiceAccount().Cache(),
		MachineCache:        c.CAPI.Machine().Cache(), MachineClient: c.CAPI.Machine(),
		BootstrapCache: c.RKE.RKEBootstrap().Cache(), BootstrapClient: c.RKE.RKEBootstrap(),
	})
	must(w.T, err)
	running, cancel := context.WithCancel(w.Context())
	must(w.T, c.Start(running))
	return handler, func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

type connection struct {
	KubeConfig, Namespace, SecretName string
}

func introduce(t *testing.T, handler http.Handler, token string) (int, connection) {
	t.Helper()
	return introduceAs(t, handler, token, "abcdef0123456789")
}

func introduceAs(t *testing.T, handler http.Handler, token, id string) (int, connection) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://drover.example.org/v3/connect/agent", nil)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("X-Cattle-Id", id)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	var c connection
	if answer.Code == http.StatusOK {
		must(t, json.Unmarshal(answer.Body.Bytes(), &c))
	}
	return answer.Code, c
}

func TestStory_SettledMachinesCostNothing(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{name: "m1", etcd: true})
		w.add(machine{name: "m2"})
		w.settle()
		t.Logf("%d writes for two machines", len(w.api.Writes(manager)))
		for _, write := range w.api.Writes(manager) {
			if write.Code >= http.StatusBadRequest {
				t.Errorf("refused: %s", write)
			}
		}
		w.wantQuiet(20 * time.Minute)
		w.api.ResetLog()
		w.restart()
		w.wantQuiet(5 * time.Minute)
		// The agent reports into the plan Secret constantly.
		for i := range 3 {
			plan := w.secret("m1-machine-plan")
			plan.Data = map[string][]byte{"last-apply-time": fmt.Append(nil, i)}
			_, err := w.c.Core.Secret().Update(plan)
			must(t, err)
		}
		w.wantQuiet(time.Minute)
	})
}

func TestStory_CutOffAfterEveryWrite(t *testing.T) {
	writes := 0
	tell(t, func(_ *testing.T, w *world) {
		w.add(machine{name: "m1", etcd: true})
		w.settle()
		writes = w.api.Written(manager)
	})
	// Two handlers that write one object may conflict and retry, so runs may differ by a write or two.
	const least = 8
	if writes < least {
		t.Fatalf("only %d writes: the story is incomplete", writes)
	}
	for _, n := range crashpoints.Of(t, writes, 24) {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				cut := make(chan struct{})
				w.api.CutAfter(manager, n, func() { close(cut) })
				w.add(machine{name: "m1", etcd: true})
				w.settle()
				select {
				case <-cut:
				default:
					if n <= least {
						t.Fatal("the process was not cut off")
					}
				}
				w.restart()
				w.elapse(2 * time.Minute)
				w.wantMade("m1")
				if hook, finalizer := w.held("m1"); !hook || !finalizer {
					t.Errorf("hook %v, finalizer %v", hook, finalizer)
				}
				if w.bootstrap("m1").Status.DataSecretName == nil {
					t.Error("status.dataSecretName does not reach Cluster API")
				}
				token := w.secret("m1-machine-bootstrap-token").Data[corev1.ServiceAccountTokenKey]
				if !strings.Contains(w.data("m1"), naming.TokenHash(string(token))) {
					t.Error("the script has the digest of another token")
				}
			})
		})
	}
}

// TestStory_ClustersOfOthersAreLeftAlone: the controller writes nothing to a cluster with another mark: no object,
// hook, finalizer or cluster name, and it invalidates no token.
func TestStory_ClustersOfOthersAreLeftAlone(t *testing.T) {
	cases := map[string]func(w *world){
		"a new machine":   func(w *world) { w.add(machine{name: "m1", cluster: "theirs"}) },
		"an etcd machine": func(w *world) { w.add(machine{name: "m1", cluster: "theirs", etcd: true}) },
		"a machine with another cluster name": func(w *world) {
			w.add(machine{name: "m1", cluster: "theirs"})
			boot := w.bootstrap("m1")
			boot.Spec.ClusterName = "template"
			_, err := w.c.RKE.RKEBootstrap().Update(boot)
			must(w.T, err)
		},
		"a deleted etcd machine with the hook": func(w *world) {
			w.add(machine{name: "m1", cluster: "theirs", etcd: true})
			boot := w.bootstrap("m1")
			boot.Finalizers = []string{rkev1.BootstrapEtcdRemovalFinalizer}
			_, err := w.c.RKE.RKEBootstrap().Update(boot)
			must(w.T, err)
			w.patchMachine("m1", map[string]any{"metadata": map[string]any{"annotations": map[string]string{
				rkev1.PreTerminateAnnotation: rkev1.PreTerminateAnnotationValue,
			}}})
			must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		},
		"an RKEBootstrap without its Machine": func(w *world) {
			w.add(machine{name: "m1", cluster: "theirs", etcd: true})
			boot := w.bootstrap("m1")
			boot.Finalizers = []string{rkev1.BootstrapEtcdRemovalFinalizer}
			_, err := w.c.RKE.RKEBootstrap().Update(boot)
			must(w.T, err)
			found := w.machine("m1")
			found.Finalizers = nil
			_, err = w.c.CAPI.Machine().Update(found)
			must(w.T, err)
			must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		},
		"token": func(w *world) {
			w.add(machine{name: "m1", cluster: "theirs"})
			must(w.T, w.api.Add(&corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: "m1-machine-bootstrap-token-x7z2p",
					Annotations: map[string]string{rkev1.BootstrapTokenAnnotation: "true"},
					Labels:      map[string]string{rkev1.MachineNameLabel: "m1"},
				},
			}))
		},
	}
	for name, happens := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				w.addCluster("theirs", "another-owner")
				happens(w)
				w.start()
				w.elapse(time.Hour)
				if writes := w.api.Writes(manager); len(writes) > 0 {
					t.Errorf("writes to the cluster of another instance: %v", writes)
				}
			})
		})
	}
}

// TestStory_WaitsForEverythingThatIsMissingWhereverTheProcessIsKilled: nothing is made too early, and one event is
// enough to continue.
func TestStory_WaitsForEverythingThatIsMissingWhereverTheProcessIsKilled(t *testing.T) {
	capi := func(w *world, content map[string]any, sub ...string) {
		_, err := w.c.CAPI.Cluster().Patch(namespace, "demo", types.MergePatchType, encode(w.T, content), sub...)
		must(w.T, err)
	}
	cases := map[string]struct{ before, after func(w *world) }{
		"infrastructure of the cluster": {
			before: func(w *world) {
				capi(w, map[string]any{
					"status": map[string]any{"initialization": map[string]any{"infrastructureProvisioned": false}}},
					"status")
			},
			after: func(w *world) {
				capi(w, map[string]any{
					"status": map[string]any{"initialization": map[string]any{"infrastructureProvisioned": true}}},
					"status")
			},
		},
		"the cluster is paused": {
			before: func(w *world) { capi(w, map[string]any{"spec": map[string]any{"paused": true}}) },
			after:  func(w *world) { capi(w, map[string]any{"spec": map[string]any{"paused": nil}}) },
		},
		"the mark of the instance": {
			before: func(w *world) { w.mark("demo", "another-owner") },
			after:  func(w *world) { w.mark("demo", instance) },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, nothing, func(t *testing.T, w *world) {
				c.before(w)
				w.settle()
				w.add(machine{name: "m1"})
				w.elapse(time.Minute)
				if made := w.made(); len(made) > 0 {
					t.Fatalf("objects created too early: %v", made)
				}
				c.after(w)
				w.settle()
				w.wantMade("m1")
			})
		})
	}
}

func (w *world) mark(cluster, instance string) {
	w.Helper()
	content := map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{rkev1.InstanceAnnotation: instance}}}
	_, err := w.c.Provisioning.Cluster().Patch(namespace, cluster, types.MergePatchType, encode(w.T, content))
	must(w.T, err)
}

// TestStory_BadInputHurtsItsOwnMachineAloneWhereverTheProcessIsKilled: another machine gets everything, and nothing is
// written repeatedly.
func TestStory_BadInputHurtsItsOwnMachineAloneWhereverTheProcessIsKilled(t *testing.T) {
	const foreignInfra = "infrastructure.cluster.x-k8s.io"
	// wantMessage is the message of the bootstrap object, which its Machine shows; "" if the machine only waits.
	cases := map[string]struct {
		happens     func(w *world)
		wantMessage string
	}{
		"userdata without YAML": {
			func(w *world) { w.add(machine{name: "bad", infraGroup: foreignInfra, userdata: "a: [b"}) },
			"spec.userdata.inlineUserdata: must be a cloud-config: a YAML map, without a script or a multi-part " +
				"archive; see line 1",
		},
		"userdata with a runcmd that is not a list": {
			func(w *world) { w.add(machine{name: "bad", infraGroup: foreignInfra, userdata: "runcmd: reboot"}) },
			"spec.userdata.inlineUserdata: runcmd must be a list",
		},
		"variables with invalid names": {
			func(w *world) {
				w.addCluster("other", instance)
				w.variables("other", rkev1.EnvVar{Name: "no-proxy", Value: "secret"})
				w.settle() // a machine that is seen before the variables are set gets a script without them
				w.add(machine{name: "bad", cluster: "other"})
			},
			`spec.agentEnvVars: the names ["no-proxy"] are invalid in a shell: use letters, digits and _, and do not start with a digit`,
		},
		"a machine without a cluster": {func(w *world) { w.add(machine{name: "bad", cluster: "nowhere"}) }, ""},
		"a Windows machine": {
			func(w *world) { w.add(machine{name: "bad", windows: true}) },
			"machines with Windows are not supported; use a Linux machine without the label cattle.io/os=windows",
		},
		"a token whose name another object has": {func(w *world) {
			must(w.T, w.api.Add(&corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bad-machine-bootstrap-token"},
			}))
			w.add(machine{name: "bad"})
		}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, nothing, func(t *testing.T, w *world) {
				c.happens(w)
				w.add(machine{name: "good"})
				w.elapse(time.Minute)
				if w.bootstrap("good").Status.DataSecretName == nil {
					t.Error("the other machine gets no bootstrap data")
				}
				if w.bootstrap("bad").Status.DataSecretName != nil {
					t.Error("the machine gets its bootstrap data")
				}
				w.wantProblem("bad", c.wantMessage)
			})
		})
	}
}

// variables sets the environment variables of a cluster's agents.
func (w *world) variables(cluster string, variables ...rkev1.EnvVar) {
	w.Helper()
	_, err := w.c.RKE.RKEControlPlane().Patch(namespace, cluster, types.MergePatchType,
		encode(w.T, map[string]any{"spec": map[string]any{"agentEnvVars": variables}}))
	must(w.T, err)
}

// wantProblem fails unless a bootstrap object reports why it has no data. An empty message means that it reports
// nothing.
func (w *world) wantProblem(name, message string) {
	w.Helper()
	ready := conditions.GetMeta(w.bootstrap(name).Status.Conditions, rkev1.ConditionReady)
	switch {
	case message == "" && ready == nil:
	case message == "" || ready == nil:
		w.Errorf("condition is %v, want message %q", ready, message)
	case ready.Status != metav1.ConditionFalse || ready.Reason != "BadInput" || ready.Message != message:
		w.Errorf("condition is %v, want message %q", ready, message)
	default:
		must(w.T, outcome.CheckStable(ready.Message))
	}
}

// TestStory_BadInputIsCorrected: correcting the input is enough, and clears the problem.
func TestStory_BadInputIsCorrected(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.variables("demo", rkev1.EnvVar{Name: "no-proxy", Value: "a"})
		w.add(machine{name: "m1"})
		w.settle()
		if w.secret("m1-machine-bootstrap") != nil {
			t.Fatal("the variable is left out of the script")
		}
		w.variables("demo", rkev1.EnvVar{Name: "NO_PROXY", Value: "a"})
		w.settle()
		status := w.bootstrap("m1").Status
		if status.DataSecretName == nil || !conditions.IsTrueMeta(status.Conditions, rkev1.ConditionReady) {
			t.Errorf("status is %+v", status)
		}
		w.wantQuiet(10 * time.Minute)
	})
}

func TestStory_OtherInfrastructureGetsCloudConfig(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{name: "m1", infraGroup: "infrastructure.cluster.x-k8s.io", userdata: "runcmd: [reboot]\n"})
		w.settle()
		data := w.secret("m1-machine-bootstrap")
		if data == nil {
			t.Fatal("no bootstrap data")
		}
		if got := string(data.Data["format"]); got != "cloud-config" {
			t.Errorf("format is %q", got)
		}
		if got := w.data("m1"); !strings.HasPrefix(got, "## template: jinja\n#cloud-config\n") ||
			!strings.Contains(got, "- reboot") {
			t.Errorf("bootstrap data are:\n%s", got)
		}
	})
}

// TestStory_MachineThatGoesGetsNoIdentity: a machine that is being deleted gets no identity.
func TestStory_MachineThatGoesGetsNoIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.add(machine{name: "m1"})
		must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		w.start()
		w.elapse(time.Minute)
		for _, object := range w.made() {
			if strings.Contains(object, "-machine-bootstrap") {
				t.Errorf("%s is created for a deleted machine", object)
			}
		}
	})
}

// TestStory_DataAreWrittenOnce: changes of the cluster or of the server's settings change neither the script of a
// machine that may have started, nor its token.
func TestStory_DataAreWrittenOnce(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add(machine{name: "m1"})
		w.settle()
		before := w.data("m1")
		_, err := w.c.RKE.RKEControlPlane().Patch(namespace, "demo", types.MergePatchType, encode(t, map[string]any{
			"spec": map[string]any{
				"agentEnvVars": []map[string]string{{"name": "HTTPS_PROXY", "value": "http://proxy"}}},
		}))
		must(t, err)
		w.setup.LinuxInstaller = "echo newer\n"
		w.restart()
		w.wantQuiet(time.Minute)
		if w.data("m1") != before {
			t.Error("the script has changed")
		}
	})
}

// TestStory_WhatIsTakenAwayComesBackWhereverTheProcessIsKilled: deleted objects and labels come back, because the agent
// can change its plan Secret and users delete things.
func TestStory_WhatIsTakenAwayComesBackWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, func(_ *testing.T, w *world) {
		w.add(machine{name: "m1", etcd: true})
		w.settle()
	}, func(t *testing.T, w *world) {
		plan := w.secret("m1-machine-plan")
		plan.Labels = map[string]string{rkev1.ControlPlaneRoleLabel: "true", rkev1.EtcdRoleLabel: "false",
			rkev1.MachineNameLabel: "m2"}
		plan.Data = map[string][]byte{"applied-checksum": []byte("abc")}
		_, err := w.c.Core.Secret().Update(plan)
		must(t, err)
		must(t, w.c.RBAC.Role().Delete(namespace, "m1-machine-plan", nil))
		w.elapse(15 * time.Second) // deleting an object right after its creation may look like a late cache
		w.wantMade("m1")
		plan = w.secret("m1-machine-plan")
		if plan.Labels[rkev1.EtcdRoleLabel] != "true" || plan.Labels[rkev1.MachineNameLabel] != "m1" {
			t.Errorf("labels of the plan Secret are %v", plan.Labels)
		}
		if string(plan.Data["applied-checksum"]) != "abc" {
			t.Error("the agent's report is lost")
		}
	})
}

// TestStory_RefusedWritesAreTriedAgainWhereverTheProcessIsKilled: everything is made although the API server refuses
// the first attempt of each create.
func TestStory_RefusedWritesAreTriedAgainWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, nothing, func(t *testing.T, w *world) {
		var mu sync.Mutex
		refused := map[string]bool{}
		w.api.Intercept(func(r memkube.Request) error {
			mu.Lock()
			defer mu.Unlock()
			key := r.Verb + " " + r.Resource.Resource + " " + r.Subresource + " " + string(r.Body)
			if !strings.HasPrefix(r.Agent, manager) || r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" ||
				refused[key] {
				return nil
			}
			refused[key] = true
			return apierrors.NewInternalError(errors.New("etcd is busy"))
		})
		w.add(machine{name: "m1", etcd: true})
		w.elapse(time.Minute)
		w.wantMade("m1")
		if hook, finalizer := w.held("m1"); !hook || !finalizer || w.bootstrap("m1").Status.DataSecretName == nil {
			t.Errorf("hook %v, finalizer %v, status %+v", hook, finalizer, w.bootstrap("m1").Status)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(refused) < 9 {
			t.Errorf("only %d writes were refused: the story does not do what it should", len(refused))
		}
	})
}

// TestStory_RightsComeBackByThemselves: the event of a deleted object alone restores it.
func TestStory_RightsComeBackByThemselves(t *testing.T) {
	cases := map[string]func(w *world) error{
		"role":    func(w *world) error { return w.c.RBAC.Role().Delete(namespace, "m1-machine-plan", nil) },
		"binding": func(w *world) error { return w.c.RBAC.RoleBinding().Delete(namespace, "m1-machine-plan", nil) },
		"account": func(w *world) error { return w.c.Core.ServiceAccount().Delete(namespace, "m1-machine-plan", nil) },
		"channel": func(w *world) error { return w.c.Core.Secret().Delete(namespace, "m1-machine-plan", nil) },
	}
	for name, taken := range cases {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				w.add(machine{name: "m1"})
				w.elapse(5 * time.Minute)
				must(t, taken(w))
				w.settle()
				w.wantMade("m1")
				w.wantQuiet(time.Minute)
			})
		})
	}
}
