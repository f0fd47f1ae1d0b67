package machineprovision

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// server holds the API server's objects, which the caches may lack, and records writes.
type server struct {
	job     *batchv1.Job
	pods    []corev1.Pod
	state   *corev1.Secret
	readErr error
	writes  []string
	after   time.Duration // until the next reconcile
}

func (s *server) OnChange(string, func(schema.GroupVersionKind) bool, clients.DynamicHandler) {}
func (s *server) EnqueueAfter(_ schema.GroupVersionKind, _, _ string, after time.Duration) {
	s.after = after
}
func (s *server) Get(schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "x")
}

func (s *server) UpdateStatus(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.writes = append(s.writes, "status")
	return nil, nil
}

func (s *server) Update(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.writes = append(s.writes, "update "+strings.Join(obj.GetFinalizers(), ","))
	return obj, nil
}

func (s *server) handler(t *testing.T) *handler {
	t.Helper()
	ctrl := gomock.NewController(t)
	absent := apierrors.NewNotFound(schema.GroupResource{}, "x")
	jobs := fake.NewMockControllerInterface[*batchv1.Job, *batchv1.JobList](ctrl)
	jobs.EXPECT().Get("ns", gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, _ string, _ metav1.GetOptions) (*batchv1.Job, error) {
		if s.readErr != nil || s.job != nil {
			return s.job, s.readErr
		}
		return nil, absent
	}).AnyTimes()
	jobs.EXPECT().Create(gomock.Any()).DoAndReturn(func(job *batchv1.Job) (*batchv1.Job, error) {
		if s.job != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, job.Name)
		}
		s.writes = append(s.writes, "create "+job.Name)
		return job, nil
	}).AnyTimes()
	jobs.EXPECT().Delete("ns", gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, name string, options *metav1.DeleteOptions) error {
		if options.Preconditions == nil || options.Preconditions.ResourceVersion == nil {
			return errors.New("the Job may have changed")
		}
		s.writes = append(s.writes, "delete "+name)
		return nil
	}).AnyTimes()
	pods := fake.NewMockControllerInterface[*corev1.Pod, *corev1.PodList](ctrl)
	pods.EXPECT().List("ns", gomock.Any()).DoAndReturn(func(string, metav1.ListOptions) (*corev1.PodList, error) {
		return &corev1.PodList{Items: s.pods}, nil
	}).AnyTimes()
	secrets := fake.NewMockControllerInterface[*corev1.Secret, *corev1.SecretList](ctrl)
	secrets.EXPECT().Get("ns", gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, _ string, _ metav1.GetOptions) (*corev1.Secret, error) {
		if s.state != nil {
			return s.state, nil
		}
		return nil, absent
	}).AnyTimes()
	return &handler{Deps: Deps{Dynamic: s, Jobs: jobs, Pods: pods, Secrets: secrets, Now: time.Now}, ctx: t.Context(),
		written: ownwrites.New()}
}

func guarded() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(gvkOf("SimMachine"))
	obj.SetNamespace("ns")
	obj.SetName("m1")
	obj.SetUID("1")
	obj.SetFinalizers([]string{"other", rkev1.MachineProvisionFinalizer})
	return obj
}

// jobOf returns a Job of the machine with that UID.
func jobOf(uid string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "j",
		OwnerReferences: []metav1.OwnerReference{{Kind: "SimMachine", Name: "m1", UID: types.UID(uid)}},
	}}
}

// TestAct_AsksTheServerBeforeARelease: a machine is not released or given up while the API server has objects that the
// caches lack.
func TestAct_AsksTheServerBeforeARelease(t *testing.T) {
	release := machinejob.Action{Kind: machinejob.ActionRelease, Name: "j", StateSecret: "s"}
	gone := machinejob.Action{Kind: machinejob.ActionConfirmGone, Name: "j", StateSecret: "s"}
	back := machinejob.Action{Kind: machinejob.ActionTakeBack, Name: "j"}
	active := jobOf("1")
	active.Status.Active = 1
	waiting := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	broken := &corev1.Secret{Data: map[string][]byte{rkev1.MachineStateKey: []byte("not an archive")}}
	for name, test := range map[string]struct {
		server     server
		action     machinejob.Action
		wantDone   bool
		wantWrites []string
		wantErr    bool
	}{
		"without objects: released": {action: release, wantDone: true,
			wantWrites: []string{"update other"}},
		"its Job exists": {server: server{job: jobOf("1")}, action: release},
		"a Job of another machine with the same name": {server: server{job: jobOf("2")}, action: release,
			wantDone: true, wantWrites: []string{"update other"}},
		"its state is empty": {server: server{state: &corev1.Secret{}}, action: release,
			wantDone: true, wantWrites: []string{"update other"}},
		"its state may hold a machine": {server: server{state: broken}, action: release},
		"the server does not answer": {server: server{readErr: errors.New("timeout")},
			action: release, wantErr: true},
		"a deleted Job is confirmed":                  {action: gone, wantDone: true},
		"a Job that the caches lack is not confirmed": {server: server{job: jobOf("1")}, action: gone},
		"a deleted state is confirmed": {action: machinejob.Action{Kind: machinejob.ActionConfirmGone,
			StateSecret: "s"}, wantDone: true},
		"a state that the caches lack is not confirmed": {server: server{state: &corev1.Secret{}}, action: gone},
		"the Job of a waiting pod is deleted": {server: server{job: active, pods: []corev1.Pod{waiting}},
			action: back, wantDone: true, wantWrites: []string{"delete j"}},
		"the Job of a pod that the caches lack is kept": {server: server{job: active}, action: back},
		"the Job of a running pod is kept": {server: server{job: active,
			pods: []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}}, action: back},
		"a missing Job is done":         {action: back, wantDone: true},
		"an unknown action is an error": {action: machinejob.Action{Kind: "Sing"}, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := test.server.handler(t).act(guarded(),
				machinejob.Decision{Actions: []machinejob.Action{test.action}})
			if done != test.wantDone || (err != nil) != test.wantErr {
				t.Errorf("done %v, error %v; want %v, %v", done, err, test.wantDone, test.wantErr)
			}
			if diff := cmp.Diff(test.wantWrites, test.server.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_NeverReplacesAJob(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j"}}
	for name, test := range map[string]struct {
		server     server
		wantWrites []string
		wantErr    string
	}{
		"no Job exists":               {wantWrites: []string{"create j"}},
		"the Job exists":              {server: server{job: jobOf("1")}},
		"a Job of an earlier machine": {server: server{job: jobOf("2")}, wantErr: "belongs to another machine"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.server.handler(t).run(guarded(), job)
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("error is %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.wantWrites, test.server.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// sets are apply sets that find the given changes, one at each call. They count the calls.
type sets struct {
	changes []applyset.Result
	calls   int
}

func (s *sets) next() applyset.Result {
	s.calls++
	if s.calls > len(s.changes) {
		return applyset.Result{}
	}
	return s.changes[s.calls-1]
}

type (
	rightSets struct {
		Applier
		*sets
	}
	secretSets struct{ *sets }
)

func (s rightSets) Apply(context.Context, string, runtime.Object, applyset.OwnerRefs, []schema.GroupVersionKind,
	[]runtime.Object) (applyset.Result, error) {
	return s.next(), nil
}

func (s secretSets) Apply(context.Context, string, runtime.Object, applyset.OwnerRefs, []*corev1.Secret) (
	applyset.Result, error) {
	return s.next(), nil
}

// TestRestore_WaitsWhileCachesMayBeOld: what a Job needs is written again at once if nothing was written for it.
// Otherwise, caches may not show the new objects yet.
func TestRestore_WaitsWhileCachesMayBeOld(t *testing.T) {
	made := applyset.Result{Created: []string{"x"}}
	for name, test := range map[string]struct {
		changes []applyset.Result // of the Secrets and of the rights, by ensure
		later   time.Duration
		want    int
	}{
		"nothing was written":      {want: 4},
		"Secrets were written":     {changes: []applyset.Result{made}, want: 2},
		"rights were written":      {changes: []applyset.Result{{}, made}, want: 2},
		"the write was a time ago": {changes: []applyset.Result{made}, later: ownwrites.BelievedAfter, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			now, s, applied := time.Now(), server{}, &sets{changes: test.changes}
			h := s.handler(t)
			cache := fake.NewMockCacheInterface[*corev1.Secret](gomock.NewController(t))
			cache.EXPECT().Get("ns", gomock.Any()).Return(&corev1.Secret{}, nil).AnyTimes()
			h.secrets, h.Apply, h.ApplySecrets = cache, rightSets{sets: applied}, secretSets{applied}
			h.Now = func() time.Time { return now }
			objects := machinejob.Objects{State: &corev1.Secret{}}
			for _, kind := range []machinejob.ActionKind{machinejob.ActionEnsure, machinejob.ActionRestore} {
				done, err := h.act(guarded(),
					machinejob.Decision{Actions: []machinejob.Action{{Kind: kind, Objects: objects}}})
				if err != nil || !done {
					t.Fatalf("%s: done %v, error %v", kind, done, err)
				}
				now = now.Add(test.later)
			}
			if applied.calls != test.want {
				t.Errorf("the sets are applied %d times, want %d", applied.calls, test.want)
			}
			if wait := applied.calls < 4; wait != (s.after > 0) {
				t.Errorf("runs again after %s", s.after)
			}
		})
	}
}

// TestOnChange_IgnoresOldVersions: an object older than the last write is ignored, because its event follows.
func TestOnChange_IgnoresOldVersions(t *testing.T) {
	s := server{}
	h := s.handler(t)
	obj := guarded()
	obj.SetResourceVersion("5")
	h.written.Replaced(obj.GetUID(), "5", h.Now())
	if err := h.onChange(gvkOf("SimMachine"), "ns/m1", obj); err != nil {
		t.Fatal(err) // any other action would use a cache that does not exist
	}
	if len(s.writes) > 0 {
		t.Errorf("writes %v", s.writes)
	}
}
