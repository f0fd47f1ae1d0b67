package credentialcheck_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/credentialcheck"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/events"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	agent    = "drover/test"
	instance = "instance-1"
	secret   = "hunter2-hunter2"
)

// registry is the Secret for Drover's image.
var registry = types.NamespacedName{Namespace: "drover-system", Name: "registry"}

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// open permits every Secret.
type open struct{}

func (open) Check(*provv1.Cluster, types.NamespacedName, map[string]string) (access.Verdict, string) {
	return access.Allowed, ""
}
func (open) OnChange(func(types.NamespacedName)) {}

// configs is the machine config of all pools.
type configs struct {
	fields   map[string]any
	unserved atomic.Bool
}

func (c *configs) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if c.unserved.Load() {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group}, name)
	}
	out := &unstructured.Unstructured{Object: maps.Clone(c.fields)}
	out.SetGroupVersionKind(gvk)
	out.SetNamespace(namespace)
	out.SetName(name)
	return out, nil
}
func (c *configs) Synced(schema.GroupVersionKind) bool                               { return !c.unserved.Load() }
func (*configs) OnInformer(func(schema.GroupVersionKind, cache.SharedIndexInformer)) {}

// world is a management cluster with the running controller, and the kubelet and the cloud of its Jobs.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	stop func()
	cut  chan struct{}
	configs
	// answer is the answer of the cloud. asked counts the Jobs, and told lists Events.
	answer credentialjob.Result
	asked  int
	told   []string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kinds, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, configs: configs{fields: map[string]any{"region": "eu-central-1"}},
			answer: credentialjob.Result{Reason: credentialjob.ReasonAccepted, Message: "Yes"}}
		w.api = memkube.New(memkube.Options{Scheme: kinds, CRDs: definitions,
			Namespaces: []string{build.Namespace, registry.Namespace}, Permit: rights.Permit(t, agent)})
		fields := map[string]mgmtv3.Field{"accessKey": {Required: true}, "secretKey": {Required: true}}
		for _, name := range []string{"amazonec2config", "amazonec2credentialconfig"} {
			must(t, w.api.Add(&mgmtv3.DynamicSchema{
				TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "DynamicSchema"},
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mgmtv3.DynamicSchemaSpec{ResourceFields: fields}}))
		}
		must(t, w.api.Add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: registry.Namespace, Name: registry.Name},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")}}))
		for _, name := range []string{"demo", "other"} {
			must(t, w.api.Add(cluster(name)))
		}
		w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

// cluster has two pools with the same credential and region.
func cluster(name string) *provv1.Cluster {
	out := build.Cluster(name, build.Pool("a", "ecw", 1), build.Pool("b", "w", 1))
	out.TypeMeta = metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"}
	out.Annotations = map[string]string{rkev1.InstanceAnnotation: instance}
	out.Spec.CloudCredentialSecretName = "cc-aws"
	for i := range out.Spec.RKEConfig.MachinePools {
		out.Spec.RKEConfig.MachinePools[i].NodeConfig.Kind = "Amazonec2Config"
		out.Spec.RKEConfig.MachinePools[i].NodeConfig.APIVersion = "rke-machine-config.cattle.io/v1"
	}
	return out
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	must(w.T, credentialcheck.Register(c.HandlerContext(), credentialcheck.Deps{
		Clusters: c.Provisioning.Cluster(), Secrets: c.Core.Secret(), Jobs: c.Batch.Job(), Pods: c.Core.Pod(),
		Machines: c.CAPI.Machine(), DynamicSchemas: c.Management.DynamicSchema(), Kinds: &w.configs, Access: open{},
		InstanceID: instance,
		Settings: func() credentialjob.Settings {
			return credentialjob.Settings{Image: "drover", PullSecrets: []types.NamespacedName{registry}}
		},
		Announce: func(e events.Event) {
			w.told = append(w.told, e.Type+" "+string(e.Reason)+" on "+e.Object.Kind+" "+e.Object.Name)
		},
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

// pass lets Jobs end until nothing happens. It restarts a killed controller.
func (w *world) pass() {
	w.Helper()
	for range 4 {
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-w.cut:
			w.cut = nil
			w.stop()
			w.api.Mend(agent)
			w.start()
			time.Sleep(time.Minute)
			synctest.Wait()
		default:
		}
		w.endJobs()
	}
}

// endJobs ends the running Jobs with the answer of the cloud.
func (w *world) endJobs() {
	w.Helper()
	jobs, err := w.user.Batch.Job().List(build.Namespace, metav1.ListOptions{})
	must(w.T, err)
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if len(job.Status.Conditions) > 0 || job.DeletionTimestamp != nil {
			continue
		}
		w.asked++
		w.expectPull(job)
		pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
		pod.Namespace, pod.Name = job.Namespace, job.Name
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job,
			batchv1.SchemeGroupVersion.WithKind("Job"))}
		made, err := w.user.Core.Pod().Create(pod)
		must(w.T, err)
		made.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Message: w.answer.Encode()}}}}}
		_, err = w.user.Core.Pod().UpdateStatus(made)
		must(w.T, err)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.Now()}}
		_, err = w.user.Batch.Job().UpdateStatus(job)
		must(w.T, err)
	}
}

// expectPull fails if the pod of a Job cannot pull its image.
func (w *world) expectPull(job *batchv1.Job) {
	w.Helper()
	pull := job.Spec.Template.Spec.ImagePullSecrets
	if len(pull) != 1 {
		w.Errorf("Secrets for the image are %v", pull)
		return
	}
	_, err := w.user.Core.Secret().Get(job.Namespace, pull[0].Name, metav1.GetOptions{})
	must(w.T, err)
}

// write writes the credential, with other values after each check.
func (w *world) write(keys ...string) {
	w.Helper()
	data := map[string][]byte{}
	for _, key := range keys {
		data["amazonec2credentialConfig-"+key] = fmt.Appendf(nil, "%s-%d", secret, w.asked)
	}
	live, err := clients.Optional(w.user.Core.Secret().Get(build.Namespace, "cc-aws", metav1.GetOptions{}))
	must(w.T, err)
	if live == nil {
		_, err = w.user.Core.Secret().Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace,
			Name: "cc-aws"}, Data: data})
	} else {
		live.Data = data
		_, err = w.user.Core.Secret().Update(live)
	}
	must(w.T, err)
}

// expect compares the condition of both clusters, and how often the cloud was asked. It also checks what remains.
func (w *world) expect(status, reason string, asked int) {
	w.Helper()
	for _, name := range []string{"demo", "other"} {
		found, err := w.user.Provisioning.Cluster().Get(build.Namespace, name, metav1.GetOptions{})
		must(w.T, err)
		got := conditions.Get(found.Status.Conditions, provv1.ConditionCloudCredentialValid)
		if got == nil || got.Status != status || got.Reason != reason || strings.Contains(got.Message, secret) {
			w.Errorf("cluster %s has condition %+v, want %s %s", name, got, status, reason)
		}
	}
	if w.asked != asked {
		w.Errorf("the cloud was asked %d times, want %d", w.asked, asked)
	}
	w.expectNoCopy()
}

// expectNoCopy checks that no Job and no copy of the credential remain.
func (w *world) expectNoCopy() {
	w.Helper()
	jobs, err := w.user.Batch.Job().List(build.Namespace, metav1.ListOptions{})
	must(w.T, err)
	if len(jobs.Items) > 0 {
		w.Errorf("%d Jobs remain", len(jobs.Items))
	}
	secrets, err := w.user.Core.Secret().List(build.Namespace, metav1.ListOptions{})
	must(w.T, err)
	for _, s := range secrets.Items {
		if _, isAsked := s.Data[credentialjob.Variable]; isAsked || s.Type == corev1.SecretTypeDockerConfigJson {
			w.Errorf("Secret %s has a credential", s.Name)
		}
	}
}

// TestCheck_OncePerVersionOfTheCredential follows a credential that expires, is mistyped and is corrected.
func TestCheck_OncePerVersionOfTheCredential(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("accessKey", "secretKey")
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 1)
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 1)

		w.answer = credentialjob.Result{Reason: credentialjob.ReasonExpired, Message: "It has expired"}
		w.write("accessKey", "secretKey")
		w.pass()
		w.expect("False", credentialjob.ReasonExpired, 2)

		w.write("acessKey", "secretKey")
		w.pass()
		w.expect("False", credentialjob.ReasonInvalid, 2)

		w.answer = credentialjob.Result{Reason: credentialjob.ReasonAccepted, Message: "Yes"}
		w.write("accessKey", "secretKey")
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 3)
		want := "Normal CredentialAccepted on Secret cc-aws, Warning CredentialExpired on Secret cc-aws, " +
			"Normal CredentialAccepted on Secret cc-aws"
		if got := strings.Join(w.told, ", "); got != want {
			t.Errorf("Events %s, want %s", got, want)
		}
	})
}

// TestCheck_ThatIsNoLongerAsked: the copy of the credential goes with the question.
func TestCheck_ThatIsNoLongerAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("accessKey", "secretKey")
		time.Sleep(time.Second)
		synctest.Wait()
		jobs, err := w.user.Batch.Job().List(build.Namespace, metav1.ListOptions{})
		if err != nil || len(jobs.Items) != 1 {
			t.Fatalf("Jobs %+v, %v", jobs, err)
		}
		for _, name := range []string{"demo", "other"} {
			cluster, err := w.user.Provisioning.Cluster().Get(build.Namespace, name, metav1.GetOptions{})
			must(t, err)
			cluster.Spec.CloudCredentialSecretName = ""
			_, err = w.user.Provisioning.Cluster().Update(cluster)
			must(t, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.expectNoCopy()
	})
}

// TestCheck_WhoseJobIsRefused: the credential does not stay in the record until a quota permits the Job.
func TestCheck_WhoseJobIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && r.Resource.Resource == "jobs" {
				return apierrors.NewForbidden(r.Resource.GroupResource(), "", errors.New("exceeded quota: small"))
			}
			return nil
		})
		w.write("accessKey", "secretKey")
		w.pass()
		w.expect("Unknown", credentialjob.ReasonUnchecked, 0)
		if got := strings.Join(w.told, ", "); got != "Warning CredentialUnchecked on Secret cc-aws" {
			t.Errorf("Events %s", got)
		}
	})
}

// TestCheck_AStartKeepsTheCondition: the cache of machine configs is filled last.
func TestCheck_AStartKeepsTheCondition(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("accessKey", "secretKey")
		w.pass()
		written := w.api.Written(agent)
		w.stop()
		w.unserved.Store(true)
		w.start()
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 1)
		w.unserved.Store(false)
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 1)
		if again := w.api.Written(agent); again != written {
			t.Errorf("a start made %d writes", again-written)
		}
	})
}

// TestCheck_TheMachineConfigMayHaveAMissingValue: the driver reads it from there.
func TestCheck_TheMachineConfigMayHaveAMissingValue(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fields["secretKey"] = secret
		w.write("accessKey")
		w.pass()
		w.expect("True", credentialjob.ReasonAccepted, 1)
	})
}

// TestCheck_ARecordThatAUserDeletes: the credential is checked again.
func TestCheck_ARecordThatAUserDeletes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write("accessKey", "secretKey")
		w.pass()
		secrets, err := w.user.Core.Secret().List(build.Namespace, metav1.ListOptions{})
		must(t, err)
		for _, s := range secrets.Items {
			if s.Type == credentialjob.SecretType {
				must(t, w.user.Core.Secret().Delete(s.Namespace, s.Name, nil))
			}
		}
		w.answer = credentialjob.Unchecked("no answer")
		w.pass()
		w.expect("Unknown", credentialjob.ReasonUnchecked, 2)
	})
}

// TestCheck_WhereverTheProcessIsKilled: the cloud is asked once all the same.
func TestCheck_WhereverTheProcessIsKilled(t *testing.T) {
	crashpoints.Each(t, 1, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inWorld(t, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.write("accessKey", "secretKey")
			w.pass()
			w.pass()
			w.expect("True", credentialjob.ReasonAccepted, 1)
			writes = w.api.Written(agent)
		})
		return writes
	})
}
