package unmanaged_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/unmanaged"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
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

// world is a management cluster with this controller only, and with clusters demo and other.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	log  *bytes.Buffer
	stop func()
	// logger writes log. Controllers that run at the same time share it.
	logger *logrus.Logger
	// skew is how far the controller's clock is ahead of the API server's.
	skew time.Duration
	// nodes is the API of cluster demo, which has no kubeconfig until reachable is true.
	nodes     *fake.Clientset
	reachable atomic.Bool
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, f)
}

// inWorld is tell for a test that runs several times in sequence.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, log: &bytes.Buffer{}, logger: logrus.New(), nodes: fake.NewClientset()}
		w.logger.SetOutput(w.log)
		w.api = memkube.New(memkube.Options{
			Scheme: scheme, CRDs: definitions, Namespaces: []string{namespace, tenant, demo, other},
			Permit: rights.Permit(t, agent),
		})
		must(t, w.api.Add(cluster(namespace, "demo", demo), capi(namespace, "demo"), cluster(tenant, "other", other),
			capi(tenant, "other")))
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

// Client makes the world the connection to its clusters.
func (w *world) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	if !w.reachable.Load() {
		return nil, proxy.ErrNotAvailable
	}
	return w.nodes, nil
}

func cluster(namespace, name, id string) *provv1.Cluster {
	return &provv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
		Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}, Status: provv1.ClusterStatus{ClusterName: id},
	}
}

func capi(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	must(w.T, unmanaged.Register(c.HandlerContext(), unmanaged.Deps{
		Secrets: c.Core.Secret(), Bootstraps: c.RKE.RKEBootstrap(), CustomMachines: c.RKE.CustomMachine(),
		Machines: c.CAPI.Machine(), Tokens: c.Management.ClusterRegistrationToken(),
		Downstream: w, ControlPlanes: c.RKE.RKEControlPlane(), RKEClusters: c.RKE.RKECluster(),
		CAPIClusters: c.CAPI.Cluster(), Clusters: c.Provisioning.Cluster(), InstanceID: instance, Log: w.logger,
		Now: func() time.Time { return time.Now().Add(w.skew) },
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

// pass lets time d pass. If the controller was killed meanwhile, pass restarts it and lets d pass again.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.stop()
		w.api.Mend(agent)
		w.start()
		w.pass(d)
	default:
	}
}

// quiet fails if the controller writes anything within d.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.pass(d)
	if writes := w.api.Writes(agent); len(writes) > 0 {
		w.Errorf("writes: %v", writes)
	}
}

// request returns the request of a host that was started with these flags.
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

// askAgain changes the request, as a host does that is started again with other flags.
func (w *world) askAgain(in string, flags map[string]string) {
	w.Helper()
	secret, err := w.user.Core.Secret().Get(in, host, metav1.GetOptions{})
	must(w.T, err)
	secret.Data = request(in, identity, flags).Data
	_, err = w.user.Core.Secret().Update(secret)
	must(w.T, err)
}

// answer returns the answer to the host in a namespace: its Machine, the refusal, or nothing; "gone" if the request was
// deleted.
func (w *world) answer(in string) string {
	w.Helper()
	secret := request(in, identity, nil)
	found, err := w.api.Get(secret)
	must(w.T, err)
	switch {
	case !found:
		return "gone"
	case secret.Labels[rkev1.MachineNameLabel] != "":
		return secret.Labels[rkev1.MachineNamespaceLabel] + "/" + secret.Labels[rkev1.MachineNameLabel] +
			secret.Annotations[rkev1.RegistrationRefusedAnnotation]
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

// writes returns the controller's writes since the last check, without names.
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
