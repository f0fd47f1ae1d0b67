package unmanaged_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/controllers/unmanaged"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance  = "me"
	namespace = "fleet-default"
	tenant    = "tenant-b" // of cluster other
	demo      = "c-m-demo1234"
	other     = "c-m-other123"
	agent     = "drover/test"
	identity  = "0123456789abcdef"
)

var host = naming.MachineRequest(naming.MachineRequestCustom, identity)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a management cluster with this controller alone in it, and with clusters demo and other.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	log  *bytes.Buffer
	stop func()
	// skew is how much the clock of the controller is ahead of that of the API server.
	skew time.Duration
	// cut is closed when the process is killed; nil when nobody kills it.
	cut chan struct{}
}

func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, f)
}

// inWorld is tell for one of several tellings of the same story, which come one after the other.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, log: &bytes.Buffer{}}
		w.api = memkube.New(memkube.Options{
			Scheme: scheme, CRDs: definitions, Namespaces: []string{namespace, tenant, demo, other}, Permit: rights.Permit(t, agent),
		})
		must(t, w.api.Add(cluster(namespace, "demo", demo), capi(namespace, "demo"), cluster(tenant, "other", other), capi(tenant, "other")))
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

func cluster(namespace, name, id string) *provv1.Cluster {
	return &provv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
		Spec:       provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}, Status: provv1.ClusterStatus{ClusterName: id},
	}
}

func capi(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

// start runs the controller, as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	log := logrus.New()
	log.SetOutput(w.log)
	must(w.T, unmanaged.Register(c.HandlerContext(), unmanaged.Deps{
		Secrets: c.Core.Secret(), Bootstraps: c.RKE.RKEBootstrap(), CustomMachines: c.RKE.CustomMachine(), Machines: c.CAPI.Machine(),
		CAPIClusters: c.CAPI.Cluster(), Clusters: c.Provisioning.Cluster(), InstanceID: instance, Log: log,
		Now: func() time.Time { return time.Now().Add(w.skew) },
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was cut off meanwhile
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

// pass lets that much time pass, and as much again for the next process when one was killed meanwhile.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // once is enough
		w.stop()
		w.api.Mend(agent)
		w.start()
		w.pass(d)
	default:
	}
}

// quiet fails when anything is written for a while.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.pass(d)
	if writes := w.api.Writes(agent); len(writes) > 0 {
		w.Errorf("writes: %v", writes)
	}
}

// request is what a host says, and flags that it was started with.
func request(in, id string, flags map[string]string) *corev1.Secret {
	said := map[string][]string{"id": {id}}
	for name, value := range flags {
		said[name] = []string{value}
	}
	data, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: naming.MachineRequest(naming.MachineRequestCustom, id)},
		Type:       rkev1.SecretTypeMachineRequest, Data: map[string][]byte{rkev1.MachineRequestDataKey: data},
	}
}

func role(name string) map[string]string { return map[string]string{"role-" + name: "true"} }

func (w *world) ask(in string, flags map[string]string) {
	w.Helper()
	_, err := w.user.Core.Secret().Create(request(in, identity, flags))
	must(w.T, err)
}

// askAgain is what a host does that says something else.
func (w *world) askAgain(in string, flags map[string]string) {
	w.Helper()
	secret, err := w.user.Core.Secret().Get(in, host, metav1.GetOptions{})
	must(w.T, err)
	secret.Data = request(in, identity, flags).Data
	_, err = w.user.Core.Secret().Update(secret)
	must(w.T, err)
}

// answer is the answer to the host that asked in a namespace: a Machine, or why not, or nothing; "gone" when the request is.
func (w *world) answer(in string) string {
	w.Helper()
	secret := request(in, identity, nil)
	found, err := w.api.Get(secret)
	must(w.T, err)
	switch {
	case !found:
		return "gone"
	case secret.Labels[rkev1.MachineNameLabel] != "":
		return secret.Labels[rkev1.MachineNamespaceLabel] + "/" + secret.Labels[rkev1.MachineNameLabel] + secret.Annotations[rkev1.RegistrationRefusedAnnotation]
	}
	return secret.Annotations[rkev1.RegistrationRefusedAnnotation]
}

func (w *world) answered(in, want string) {
	w.Helper()
	if got := w.answer(in); got != want && (want == "" || !strings.Contains(got, want)) {
		w.Errorf("in %s the answer is %q, want %q", in, got, want)
	}
}

func (w *world) machines() []clusterv1.Machine {
	w.Helper()
	list, err := w.user.CAPI.Machine().List("", metav1.ListOptions{})
	must(w.T, err)
	return list.Items
}

func (w *world) custom() *rkev1.CustomMachine {
	w.Helper()
	machine, err := w.user.RKE.CustomMachine().Get(namespace, host, metav1.GetOptions{})
	must(w.T, err)
	return machine
}

// writes are those of the controller since the last look, without names.
func (w *world) writes() []string {
	var out []string
	for _, write := range w.api.Writes(agent) {
		out = append(out, write.Verb+" "+write.Resource)
	}
	w.api.ResetLog()
	return out
}

func (w *world) wrote(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.writes()); diff != "" {
		w.Errorf("writes (-want +got):\n%s", diff)
	}
}

const ours = namespace + "/"

func TestStory_HostBecomesAMachine(t *testing.T) {
	tell(t, func(w *world) {
		flags := map[string]string{"role-etcd": "true", "role-control-plane": "true", "node-name": "edge-1", "address": "203.0.113.7", "labels": "site=north"}
		w.ask(demo, flags)
		w.pass(time.Second)
		w.answered(demo, ours+host)
		w.wrote("create rkebootstraps.rke.cattle.io", "create custommachines.rke.cattle.io", "create machines.cluster.x-k8s.io",
			"update secrets", "update custommachines.rke.cattle.io/status")
		machines := w.machines()
		if len(machines) != 1 || machines[0].Labels[rkev1.EtcdRoleLabel] != "true" || machines[0].Labels[rkev1.MachineIDLabel] != identity {
			t.Errorf("machines %v", machines)
		}
		if status := w.custom().Status; len(status.Conditions) != 1 || status.Conditions[0].Status != "True" || status.Ready || status.Initialization.Provisioned != nil {
			t.Errorf("a host whose node is not known: %+v", status)
		}
		if log := w.log.String(); !strings.Contains(log, "A host is Machine "+ours+host) {
			t.Error(log)
		}

		w.askAgain(demo, role("worker")) // who asks again is the same, and keeps its roles
		w.pass(time.Second)
		w.answered(demo, ours+host)
		w.wrote("update secrets")
		if machines := w.machines(); len(machines) != 1 || machines[0].Labels[rkev1.WorkerRoleLabel] != "" {
			t.Errorf("machines %v", machines)
		}
		w.pass(time.Minute)
		w.answered(demo, "gone")
		w.wrote("delete secrets")

		_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType, []byte(`{"spec":{"providerID":"k3s://edge-1"}}`))
		must(t, err)
		w.pass(time.Second)
		w.wrote("update custommachines.rke.cattle.io/status")
		if status := w.custom().Status; !status.Ready || status.Initialization.Provisioned == nil || !*status.Initialization.Provisioned {
			t.Errorf("a host whose node is known: %+v", status)
		}
		w.ask(demo, map[string]string{}) // an agent that is installed anew says no roles
		w.pass(time.Second)
		w.answered(demo, ours+host)
		w.quiet(30 * time.Second)
		w.stop()
		w.pass(time.Hour) // nobody is there to delete the request in time
		w.start()
		w.pass(30 * time.Second)
		w.answered(demo, ours+host) // the next process has not known it for long
		w.pass(31 * time.Second)
		w.answered(demo, "gone")
		if log := w.log.String(); strings.Contains(log, "without an answer") {
			t.Error(log)
		}
		w.quiet(time.Hour)
	})
}

// Whatever the clocks say, a request is answered before it is deleted, and is deleted after a minute.
func TestStory_ClocksThatDiffer(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.stop()
				w.skew = skew
				w.start()
				w.ask(demo, role("worker"))
				w.pass(50 * time.Second)
				w.answered(demo, ours+host)
				w.pass(11 * time.Second)
				w.answered(demo, "gone")
				if machines := w.machines(); len(machines) != 1 {
					t.Errorf("machines %v", machines)
				}
			})
		})
	}
}

// What cannot be answered is deleted, too, and told of, as often as the host asks. A process that was away answers what waits.
func TestStory_RequestWithoutAnAnswer(t *testing.T) {
	tell(t, func(w *world) {
		w.patchCAPI(`{"spec":{"paused":true}}`)
		w.pass(time.Second)
		for n := range 2 {
			w.ask(demo, role("worker"))
			w.pass(59 * time.Second)
			w.answered(demo, "")
			w.pass(2 * time.Second)
			w.answered(demo, "gone")
			if told := strings.Count(w.log.String(), "deleted without an answer after 1m0s"); told != n+1 {
				t.Errorf("told %d times: %s", told, w.log)
			}
		}
		w.stop()
		w.ask(demo, role("worker"))
		w.patchCAPI(`{"spec":{"paused":null}}`)
		w.pass(10 * time.Minute)
		w.start()
		w.pass(time.Second)
		w.answered(demo, ours+host)
	})
}

// Two hosts with the same identity file, of which one is a copy of the other's disk: the server writes one request for both, whoever comes first.
func TestStory_TwoHostsWithOneIdentityAreOneMachine(t *testing.T) {
	tell(t, func(w *world) {
		var together sync.WaitGroup
		var refused error
		for _, node := range []string{"edge-1", "edge-2"} {
			together.Go(func() {
				_, err := w.user.Core.Secret().Create(request(demo, identity, map[string]string{"role-worker": "true", "node-name": node}))
				if err != nil {
					refused = err
				}
			})
		}
		together.Wait()
		if !apierrors.IsAlreadyExists(refused) {
			t.Fatalf("two requests for one identity: %v", refused)
		}
		w.askAgain(demo, map[string]string{"role-worker": "true", "node-name": "edge-3"})
		w.pass(time.Second)
		w.answered(demo, ours+host)
		must(t, w.user.Core.Secret().Delete(demo, host, &metav1.DeleteOptions{}))
		w.ask(demo, map[string]string{"role-etcd": "true", "node-name": "edge-4"})
		w.pass(time.Second)
		w.answered(demo, ours+host)
		if machines := w.machines(); len(machines) != 1 {
			t.Errorf("%d machines", len(machines))
		}
	})
}

// The same identity in two clusters at once. The caches show late what was made.
func TestStory_OneIdentityInTwoClustersIsOneMachine(t *testing.T) {
	tell(t, func(w *world) {
		w.stop()
		w.api.Lag(agent, func(resource string) time.Duration {
			if resource == "secrets" {
				return 0
			}
			return 3 * time.Second
		})
		w.start()
		w.pass(5 * time.Second)
		w.ask(demo, role("worker"))
		w.ask(other, role("worker"))
		w.pass(30 * time.Second)
		refused := 0
		for _, in := range []string{demo, other} {
			if strings.Contains(w.answer(in), "machine of another cluster") {
				refused++
			}
		}
		machines := w.machines()
		if len(machines) != 1 || refused != 1 {
			t.Fatalf("%d machines, %d refused: %q, %q", len(machines), refused, w.answer(demo), w.answer(other))
		}
		w.pass(time.Minute)
		w.ask(demo, role("worker"))
		w.ask(other, role("worker"))
		w.pass(30 * time.Second)
		if len(w.machines()) != 1 {
			t.Errorf("machines %v", w.machines())
		}
	})
}

// A request waits without an answer for what comes by itself, and for who has to say so.
func TestStory_WaitsAndGoesOn(t *testing.T) {
	for name, tt := range map[string]struct{ before, after func(w *world) }{
		"cluster that Cluster API does not know yet": {
			func(w *world) { must(w.T, w.user.CAPI.Cluster().Delete(namespace, "demo", &metav1.DeleteOptions{})) },
			func(w *world) { must(w.T, w.api.Add(capi(namespace, "demo"))) },
		},
		"cluster that is paused": {
			func(w *world) { w.patchCAPI(`{"spec":{"paused":true}}`) }, func(w *world) { w.patchCAPI(`{"spec":{"paused":null}}`) },
		},
		"cluster of another instance": {func(w *world) { w.mark("they") }, func(w *world) { w.mark(instance) }},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				tt.before(w)
				w.pass(time.Second)
				w.ask(demo, role("worker"))
				w.pass(30 * time.Second)
				w.answered(demo, "")
				w.wrote()
				tt.after(w)
				w.pass(time.Second)
				w.answered(demo, ours+host)
			})
		})
	}
}

func (w *world) patchCAPI(patch string) {
	w.Helper()
	_, err := w.user.CAPI.Cluster().Patch(namespace, "demo", types.MergePatchType, []byte(patch))
	must(w.T, err)
}

func (w *world) mark(instance string) {
	w.Helper()
	_, err := w.user.Provisioning.Cluster().Patch(namespace, "demo", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, rkev1.InstanceAnnotation, instance))
	must(w.T, err)
}

func TestStory_RequestsOfOthersAreLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		w.mark("they")
		w.pass(time.Second)
		w.ask(demo, role("worker"))
		strangers := request(other, "x", nil)
		strangers.Type, strangers.Name = corev1.SecretTypeOpaque, "custom-0123456789ab"
		must(t, w.api.Add(strangers))
		w.pass(time.Hour)
		w.answered(demo, "")
		w.wrote()
	})
}

// A host that is refused says something else, and gets another answer; while it says something that cannot be answered yet, the old one counts no more.
func TestStory_RefusedHostSaysSomethingElse(t *testing.T) {
	tell(t, func(w *world) {
		w.ask(demo, map[string]string{"labels": "kubernetes.io/x=y"})
		w.pass(time.Second)
		for _, part := range []string{"a role is missing", "--label"} {
			w.answered(demo, part)
		}
		w.wrote("update secrets")
		w.patchCAPI(`{"spec":{"paused":true}}`)
		w.pass(time.Second)
		w.askAgain(demo, role("worker"))
		w.pass(time.Second)
		w.answered(demo, "")
		w.patchCAPI(`{"spec":{"paused":null}}`)
		w.pass(time.Second)
		w.answered(demo, ours+host)
		if got := w.answer(demo); got != ours+host {
			t.Errorf("the old refusal is still there: %q", got)
		}
	})
}

// A host comes back while its Machine is still on its way out.
func TestStory_HostThatComesBackTooEarly(t *testing.T) {
	tell(t, func(w *world) {
		w.ask(demo, role("worker"))
		w.pass(time.Second)
		_, err := w.user.CAPI.Machine().Patch(namespace, host, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/drain"]}}`))
		must(t, err)
		must(t, w.user.CAPI.Machine().Delete(namespace, host, &metav1.DeleteOptions{}))
		must(t, w.user.Core.Secret().Delete(demo, host, &metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.ask(demo, role("etcd"))
		w.pass(time.Second)
		w.answered(demo, "is being removed")
		must(t, w.user.RKE.RKEBootstrap().Delete(namespace, host, &metav1.DeleteOptions{}))
		must(t, w.user.RKE.CustomMachine().Delete(namespace, host, &metav1.DeleteOptions{}))
		_, err = w.user.CAPI.Machine().Patch(namespace, host, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		must(t, err)
		w.pass(time.Second)
		w.answered(demo, ours+host)
		if machines := w.machines(); len(machines) != 1 || machines[0].Labels[rkev1.EtcdRoleLabel] == "" {
			t.Errorf("machines %v", machines)
		}
	})
}

// Who deletes the Machine of a host whose request is still there does not find it made again.
func TestStory_DeletedMachineIsNotMadeAgainByItself(t *testing.T) {
	tell(t, func(w *world) {
		w.ask(demo, role("worker"))
		w.pass(time.Second)
		must(t, w.user.CAPI.Machine().Delete(namespace, host, &metav1.DeleteOptions{}))
		w.pass(30 * time.Second)
		w.stop()
		w.start()
		w.pass(10 * time.Second)
		if machines := w.machines(); len(machines) > 0 {
			t.Errorf("machines %v", machines)
		}
	})
}

// What was begun for a host that never asked again goes with its cluster.
func TestStory_BegunAndNeverCompleted(t *testing.T) {
	tell(t, func(w *world) {
		w.api.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && r.Resource.Resource == "machines" {
				return apierrors.NewInternalError(errors.New("etcd is busy"))
			}
			return nil
		})
		w.ask(demo, role("worker"))
		w.pass(2 * time.Minute)
		w.answered(demo, "gone")
		w.custom()
		w.api.Intercept(nil)
		w.quiet(time.Hour)
		must(t, w.user.CAPI.Cluster().Delete(namespace, "demo", &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		for _, gone := range []error{
			second(w.user.RKE.CustomMachine().Get(namespace, host, metav1.GetOptions{})),
			second(w.user.RKE.RKEBootstrap().Get(namespace, host, metav1.GetOptions{})),
		} {
			if !apierrors.IsNotFound(gone) {
				t.Errorf("a half is left: %v", gone)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Somebody else makes the objects of the same host while our caches do not show it: those of the same identity are taken, those of another are not.
func TestStory_ObjectsThatNoCacheShows(t *testing.T) {
	for name, tt := range map[string]struct{ id, want string }{
		"of the host":        {identity, ours + host},
		"of somebody else's": {"another", "another object has the name"},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.stop()
				w.api.Lag(agent, func(resource string) time.Duration {
					if resource == "rkebootstraps.rke.cattle.io" {
						return 4 * time.Second
					}
					return 0
				})
				w.start()
				must(t, w.api.Add(&rkev1.RKEBootstrap{
					TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEBootstrap"},
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host, Labels: map[string]string{rkev1.MachineIDLabel: tt.id}},
					Spec:       rkev1.RKEBootstrapSpec{ClusterName: "demo"},
				}))
				w.ask(demo, role("worker"))
				w.pass(20 * time.Second)
				w.answered(demo, tt.want)
			})
		})
	}
}

// Ten processes' worth of refused writes: each is tried again.
func TestStory_RefusedWritesAreTriedAgain(t *testing.T) {
	tell(t, func(w *world) {
		var mu sync.Mutex
		refused := map[string]bool{}
		w.api.Intercept(func(r memkube.Request) error {
			mu.Lock()
			defer mu.Unlock()
			key := r.Verb + r.Resource.Resource + r.Subresource
			if !strings.HasPrefix(r.Agent, agent) || r.Verb != "create" && r.Verb != "update" && r.Verb != "delete" || refused[key] {
				return nil
			}
			refused[key] = true
			return apierrors.NewInternalError(errors.New("etcd is busy"))
		})
		w.ask(demo, role("worker"))
		w.pass(30 * time.Second)
		w.answered(demo, ours+host)
		w.pass(time.Minute)
		w.answered(demo, "gone")
		if status := w.custom().Status; len(status.Conditions) != 1 || len(refused) != 6 {
			t.Errorf("status %+v, refused %v", status, refused)
		}
	})
}

// Hosts of clusters of others, and those that are paused, are not written to, until they are to be.
func TestStory_CustomMachinesThatAreLeftAlone(t *testing.T) {
	custom := func(labels, annotations map[string]string) *rkev1.CustomMachine {
		return &rkev1.CustomMachine{
			TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "CustomMachine"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host, Labels: labels, Annotations: annotations},
		}
	}
	of := map[string]string{clusterv1.ClusterNameLabel: "demo"}
	for name, tt := range map[string]struct {
		machine       *rkev1.CustomMachine
		before, after func(w *world)
	}{
		"of another instance": {custom(of, nil), func(w *world) { w.mark("they") }, func(w *world) { w.mark(instance) }},
		"of a paused cluster": {
			custom(of, nil), func(w *world) { w.patchCAPI(`{"spec":{"paused":true}}`) }, func(w *world) { w.patchCAPI(`{"spec":{"paused":null}}`) },
		},
		"paused": {custom(of, map[string]string{clusterv1.PausedAnnotation: ""}), func(*world) {}, func(w *world) {
			w.patchCustom(`{"metadata":{"annotations":null}}`)
		}},
		"of no cluster":  {custom(nil, nil), func(*world) {}, func(w *world) { w.patchCustom(`{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"demo"}}}`) }},
		"on its way out": {custom(of, map[string]string{}), func(*world) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				tt.before(w)
				w.pass(time.Second)
				if tt.after == nil {
					tt.machine.Finalizers = []string{"example.com/wait"}
					w.stop()
				}
				must(t, w.api.Add(tt.machine))
				if tt.after == nil {
					must(t, w.user.RKE.CustomMachine().Delete(namespace, host, &metav1.DeleteOptions{}))
					w.start()
				}
				w.pass(time.Minute)
				w.wrote()
				if tt.after == nil {
					return
				}
				tt.after(w)
				w.pass(time.Second)
				w.wrote("update custommachines.rke.cattle.io/status")
				w.quiet(time.Hour)
			})
		})
	}
}

func (w *world) patchCustom(patch string) {
	w.Helper()
	_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType, []byte(patch))
	must(w.T, err)
}

// Many hosts at once, as after an installation by a script: each costs five writes, and its request another one.
func TestStory_ManyHostsAtOnce(t *testing.T) {
	tell(t, func(w *world) {
		for i := range 50 {
			_, err := w.user.Core.Secret().Create(request(demo, fmt.Sprintf("host-%d", i), role("worker")))
			must(t, err)
		}
		w.pass(30 * time.Second)
		if machines := w.machines(); len(machines) != 50 {
			t.Errorf("%d machines", len(machines))
		}
		if n := len(w.writes()); n != 250 {
			t.Errorf("%d writes", n)
		}
		w.pass(time.Minute)
		if n := len(w.writes()); n != 50 {
			t.Errorf("%d writes for the end of 50 requests", n)
		}
	})
}

// Somebody makes up identities. The cluster takes no more than so many hosts without a node, and new ones again when some have come or are removed; those that it
// has it knows, and other clusters have nothing to do with it.
func TestStory_TooManyHostsWithoutANode(t *testing.T) {
	tell(t, func(w *world) {
		made := func(i int) string {
			return naming.MachineRequest(naming.MachineRequestCustom, fmt.Sprintf("made-up-%d", i))
		}
		register := func(i int) {
			w.Helper()
			_, err := w.user.Core.Secret().Create(request(demo, fmt.Sprintf("made-up-%d", i), role("worker")))
			must(t, err)
			w.pass(100 * time.Millisecond)
		}
		for i := range 110 {
			register(i)
		}
		w.pass(time.Second)
		if machines := w.machines(); len(machines) != 100 {
			t.Fatalf("%d machines", len(machines))
		}
		const refusal = "100 hosts like this one have registered with this cluster and have no node yet; delete the Machines of those that will not come, or wait"
		w.ask(demo, role("worker"))
		w.pass(time.Second)
		w.answered(demo, refusal)
		if custom, err := w.user.RKE.CustomMachine().Get(namespace, host, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("something is made for a host that is refused: %v, %v", custom, err)
		}
		_, err := w.user.Core.Secret().Create(request(demo, "server", role("etcd")))
		must(t, err)
		w.pass(time.Second)
		if _, err := w.user.CAPI.Machine().Get(namespace, naming.MachineRequest(naming.MachineRequestCustom, "server"), metav1.GetOptions{}); err != nil {
			t.Errorf("a server is not taken, for which the workers wait: %v", err)
		}
		w.ask(other, role("worker"))
		w.pass(time.Second)
		if got := w.answer(other); got != tenant+"/"+host {
			t.Errorf("a host of another cluster is answered %q", got)
		}
		w.pass(2 * time.Minute)

		register(0) // one that is known
		known, err := w.user.Core.Secret().Get(demo, made(0), metav1.GetOptions{})
		must(t, err)
		if known.Labels[rkev1.MachineNameLabel] != made(0) {
			t.Errorf("a host that is known is answered %v, %v", known.Labels, known.Annotations)
		}
		for i, leave := range []func() error{
			func() error {
				machine, err := w.user.CAPI.Machine().Get(namespace, made(1), metav1.GetOptions{})
				must(t, err)
				machine.Status.NodeRef.Name = "edge-1"
				return second(w.user.CAPI.Machine().UpdateStatus(machine))
			},
			func() error { return w.user.CAPI.Machine().Delete(namespace, made(2), &metav1.DeleteOptions{}) },
		} {
			next := 200 + i
			register(next)
			refused, err := w.user.Core.Secret().Get(demo, made(next), metav1.GetOptions{})
			must(t, err)
			if got := refused.Annotations[rkev1.RegistrationRefusedAnnotation]; got != refusal {
				t.Errorf("host %d is answered %q", next, got)
			}
			must(t, leave())
			w.pass(time.Second)
			if _, err := w.user.CAPI.Machine().Get(namespace, made(next), metav1.GetOptions{}); err != nil {
				t.Errorf("host %d is not taken when there is room: %v", next, err)
			}
		}
	})
}
