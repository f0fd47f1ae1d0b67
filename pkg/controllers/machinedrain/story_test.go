package machinedrain_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/machinedrain"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	namespace = "fleet-default"
	options   = `{"enabled":true,"force":true}`
)

// story is a management API with one machine, and the cluster of its node.
type story struct {
	*testing.T
	api        *memkube.Server
	world      *clients.Clients
	downstream *fake.Clientset
	down       atomic.Bool // the cluster is unreachable
}

func (s *story) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	if s.down.Load() {
		return nil, errors.New("no route")
	}
	return s.downstream, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStory(t *testing.T, owner string) *story {
	t.Helper()
	logrus.SetOutput(io.Discard)
	scheme, err := clients.NewScheme()
	must(t, err)
	definitions, err := crds.All()
	must(t, err)
	s := &story{T: t,
		api: memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{namespace},
			Permit: rights.Permit(t, "drover/manager")})}
	s.world, err = clients.New(s.api.Config("world"), clients.Options{Version: "world"})
	must(t, err)
	t.Cleanup(s.world.Stop)
	s.downstream = fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"},
			Spec: corev1.PodSpec{NodeName: "node"}},
	)
	// Without the eviction API, pods are deleted.
	s.downstream.Resources = []*metav1.APIResourceList{{GroupVersion: "v1"}}
	_, err = s.world.Provisioning.Cluster().Create(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo",
			Annotations: map[string]string{"drover.io/instance": owner}},
	})
	must(t, err)
	machine, err := s.world.CAPI.Machine().Create(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"},
		Spec: clusterv1.MachineSpec{ClusterName: "demo", Bootstrap: clusterv1.Bootstrap{
			ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap",
				Name: "boot"},
		}},
	})
	must(t, err)
	machine.Status.NodeRef.Name = "node"
	_, err = s.world.CAPI.Machine().UpdateStatus(machine)
	must(t, err)
	_, err = s.world.Core.Secret().Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.PlanSecret("boot"),
			Annotations: map[string]string{"other": "kept"}},
		Type: rkev1.SecretTypeMachinePlan,
	})
	must(t, err)
	return s
}

// start runs the controller and returns a function that stops it.
func (s *story) start() (stop func()) {
	s.Helper()
	c, err := clients.New(s.api.Config("manager"), clients.Options{Version: "manager"})
	must(s.T, err)
	must(s.T, machinedrain.Register(c.HandlerContext(), machinedrain.Deps{
		InstanceID: "me", Secrets: c.Core.Secret(), Machines: c.CAPI.Machine(),
		ProvisioningClusters: c.Provisioning.Cluster().Cache(), Downstream: s,
	}))
	ctx, cancel := context.WithCancel(s.Context())
	must(s.T, c.Start(ctx))
	return func() {
		cancel()
		c.Stop()
	}
}

func (s *story) secret() *corev1.Secret {
	s.Helper()
	secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret("boot"), metav1.GetOptions{})
	must(s.T, err)
	return secret
}

// say writes an annotation as the planner or a hook would, and waits until the controller is idle.
func (s *story) say(key, value string) {
	s.Helper()
	secret := s.secret()
	secret.Annotations[key] = value
	_, err := s.world.Core.Secret().Update(secret)
	must(s.T, err)
	s.elapse(30 * time.Second)
}

func (s *story) elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// node returns whether the node is cordoned and its number of pods.
func (s *story) node() (cordoned bool, pods int) {
	s.Helper()
	node, err := s.downstream.CoreV1().Nodes().Get(s.Context(), "node", metav1.GetOptions{})
	must(s.T, err)
	list, err := s.downstream.CoreV1().Pods("").List(s.Context(), metav1.ListOptions{})
	must(s.T, err)
	return node.Spec.Unschedulable, len(list.Items)
}

func TestStory_ANodeIsDrainedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "me")
		defer s.start()()
		s.say(rkev1.DrainAnnotation, options)
		if cordoned, pods := s.node(); !cordoned || pods > 0 ||
			s.secret().Annotations[rkev1.DrainDoneAnnotation] != options {
			t.Fatalf("cordoned %v, %d pods, annotations %v", cordoned, pods, s.secret().Annotations)
		}
		s.say(rkev1.UncordonAnnotation, options)
		if cordoned, _ := s.node(); cordoned || len(s.secret().Annotations) != 1 ||
			s.secret().Annotations["other"] != "kept" {
			t.Errorf("cordoned %v, annotations %v", cordoned, s.secret().Annotations)
		}
		s.api.ResetLog()
		s.elapse(time.Hour)
		if late := s.api.Writes("drover/manager"); len(late) > 0 {
			t.Errorf("%d writes without a change", len(late))
		}
	})
}

func TestStory_AClusterThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "me")
		s.down.Store(true)
		defer s.start()()
		s.say(rkev1.DrainAnnotation, options)
		s.elapse(time.Hour)
		if got := s.secret().Annotations[rkev1.DrainErrorAnnotation]; got != "reach the cluster: no route" {
			t.Errorf("the error is %q", got)
		}
		if writes := len(s.api.Writes("drover/manager")); writes != 1 {
			t.Errorf("%d writes for one error", writes)
		}
		s.down.Store(false)
		s.elapse(6 * time.Minute)
		if got := s.secret().Annotations; got[rkev1.DrainDoneAnnotation] != options ||
			got[rkev1.DrainErrorAnnotation] != "" {
			t.Errorf("annotations are %v", got)
		}
	})
}

// With ignoreErrors, a drain that still fails after its timeout ends. Its error stays until the node is uncordoned.
func TestStory_AFailedDrainEndsIfItsErrorsAreIgnored(t *testing.T) {
	const ignoring = `{"enabled":true,"ignoreErrors":true,"timeout":1800}`
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "me") // its pod has no controller, and the drain is not forced
		defer s.start()()
		secret := s.secret()
		secret.Annotations[rkev1.DrainSinceAnnotation] = time.Now().Format(time.RFC3339)
		_, err := s.world.Core.Secret().Update(secret)
		must(t, err)
		s.say(rkev1.DrainAnnotation, ignoring)
		s.elapse(20 * time.Minute)
		if got := s.secret().Annotations; got[rkev1.DrainDoneAnnotation] != "" ||
			got[rkev1.DrainErrorAnnotation] == "" {
			t.Fatalf("before the timeout: %v", got)
		}
		s.elapse(20 * time.Minute)
		cordoned, pods := s.node()
		if got := s.secret().Annotations; got[rkev1.DrainDoneAnnotation] != ignoring ||
			got[rkev1.DrainErrorAnnotation] == "" || !cordoned || pods != 1 {
			t.Fatalf("after the timeout: cordoned %v, %d pods, %v", cordoned, pods, got)
		}
		s.say(rkev1.UncordonAnnotation, ignoring)
		if cordoned, _ := s.node(); cordoned || len(s.secret().Annotations) != 1 {
			t.Errorf("cordoned %v, annotations %v", cordoned, s.secret().Annotations)
		}
	})
}

// A new manager continues the work of one that was killed.
func TestStory_TheNextManagerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "me")
		s.down.Store(true)
		stop := s.start()
		s.say(rkev1.DrainAnnotation, options)
		stop()
		s.down.Store(false)
		defer s.start()()
		s.elapse(time.Minute)
		if cordoned, pods := s.node(); !cordoned || pods > 0 ||
			s.secret().Annotations[rkev1.DrainDoneAnnotation] != options {
			t.Errorf("cordoned %v, %d pods, annotations %v", cordoned, pods, s.secret().Annotations)
		}
	})
}

func TestStory_ForeignClustersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "another-owner")
		defer s.start()()
		s.say(rkev1.DrainAnnotation, options)
		if cordoned, pods := s.node(); cordoned || pods != 1 {
			t.Errorf("cordoned %v, %d pods", cordoned, pods)
		}
	})
}

// hooked holds drain options with hooks, as the planner writes them.
const hooked = `{"enabled":true,"force":true,"postDrainHooks":[{"annotation":"example.org/after"}],"preDrainHooks":[{"annotation":"example.org/before"}]}`

// hooksAnswer answers as the owner of a hook. It fails if the annotation question was not written.
func (s *story) hooksAnswer(question, answer string) {
	s.Helper()
	if request := s.secret().Annotations[question]; request != hooked {
		s.Fatalf("%s is %q", question, request)
	}
	s.say(answer, hooked)
	s.elapse(10 * time.Minute)
}

// A node is drained and uncordoned after whichever write the manager is killed, with and without hooks, and also if its
// cluster is unreachable for a while.
func TestStory_KilledAfterEveryWrite(t *testing.T) {
	for name, request := range map[string]string{"plain": options, "with hooks": hooked} {
		t.Run(name, func(t *testing.T) {
			crashpoints.Each(t, 12, func(t *testing.T, n int) (writes int) {
				t.Helper()
				synctest.Test(t, func(t *testing.T) {
					s := newStory(t, "me")
					stop := s.start()
					defer func() { stop() }()
					s.api.ResetLog()
					if n > 0 {
						s.api.CutAfter("drover/manager", n, func() {
							stop()
							s.api.Mend("drover/manager")
							stop = s.start()
						})
					}
					s.drainedAndBack(n, request)
					writes = s.api.Written("drover/manager")
				})
				return writes
			})
		})
	}
}

// drainedAndBack runs a drain with kill n.
func (s *story) drainedAndBack(n int, request string) {
	s.Helper()
	s.down.Store(true)
	s.say(rkev1.DrainAnnotation, request)
	s.elapse(time.Minute)
	s.down.Store(false)
	s.elapse(10 * time.Minute)
	if request == hooked {
		if cordoned, pods := s.node(); !cordoned || pods == 0 {
			s.Errorf("killed after write %d: cordoned %v, %d pods before the hook agrees", n, cordoned, pods)
		}
		s.hooksAnswer(rkev1.PreDrainAnnotation, "example.org/before")
	}
	if cordoned, pods := s.node(); !cordoned || pods > 0 ||
		s.secret().Annotations[rkev1.DrainDoneAnnotation] != request {
		s.Errorf("killed after write %d: cordoned %v, %d pods, annotations %v", n, cordoned, pods,
			s.secret().Annotations)
	}
	s.say(rkev1.UncordonAnnotation, request)
	s.elapse(10 * time.Minute)
	if request == hooked {
		if cordoned, _ := s.node(); !cordoned {
			s.Errorf("killed after write %d: the node takes pods before the hook agrees", n)
		}
		s.hooksAnswer(rkev1.PostDrainAnnotation, "example.org/after")
	}
	if cordoned, _ := s.node(); cordoned || len(s.secret().Annotations) != 1 ||
		s.secret().Annotations["other"] != "kept" {
		s.Errorf("killed after write %d: cordoned %v, annotations %v", n, cordoned, s.secret().Annotations)
	}
}
