package agent

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func writeCert(t *testing.T, path string, server *httptest.Server) {
	t.Helper()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
}

const echoPlan = `{"instructions":[{"name":"a","command":"sh","args":["-c","echo hi"],"saveOutput":true}]}`

// newTestRemote returns a source with a fake API. It has already accepted the Secret.
func newTestRemote(t *testing.T, data map[string][]byte) (*remoteSource, *fake.Clientset) {
	t.Helper()
	a, _ := newTestApplier(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u1", ResourceVersion: "1"},
		Data: data}
	client := fake.NewClientset(secret)
	r := &remoteSource{client: client, namespace: "ns", name: "p", applier: a, log: quiet(), now: time.Now}
	if !r.accept(t.Context(), secret) {
		t.Fatal("the first state of the secret must start a pass")
	}
	return r, client
}

func stored(t *testing.T, client *fake.Clientset) map[string][]byte {
	t.Helper()
	secret, err := client.CoreV1().Secrets("ns").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

func TestRemote_PassAppliesAndReportsInOneWrite(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan, "foreign", "kept"))
	r.pass(t.Context())
	state, err := nodeplan.Parse("ns/p", stored(t, client))
	if err != nil || !state.InSync || string(state.Output["a"]) != "hi\n" || state.SuccessCount != 1 {
		t.Errorf("state = %+v, %v", state, err)
	}
	if string(stored(t, client)["foreign"]) != "kept" {
		t.Error("a key of another writer was lost")
	}
	r.pass(t.Context())
	writes := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "update" {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d writes for one plan and an idle pass, want 1", writes)
	}
}

func TestRemote_NoPlan(t *testing.T) {
	r, client := newTestRemote(t, nil)
	if wait := r.pass(t.Context()); wait != defaultPeriod || len(client.Actions()) != 0 {
		t.Errorf("wait %v, actions %v", wait, client.Actions())
	}
}

func TestRemote_UnreadablePlanIsReportedWithoutItsContent(t *testing.T) {
	r, client := newTestRemote(t, secretData(`{"files":"hunter2"`))
	r.pass(t.Context())
	data := stored(t, client)
	output, err := nodeplan.DecodeOutput(nodeplan.KeyFailedOutput, data[nodeplan.KeyFailedOutput])
	if err != nil || len(output[nodeplan.OutputAgentError]) == 0 || bytes.Contains(output[nodeplan.OutputAgentError],
		[]byte("hunter2")) {
		t.Errorf("failed output = %q, %v", output, err)
	}
	if string(data[nodeplan.KeyFailureCount]) != "1" {
		t.Errorf("failure count = %s", data[nodeplan.KeyFailureCount])
	}
}

func TestRemote_RestartDoesNotRepeatAnAppliedPlan(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	r.pass(t.Context())
	secret, err := client.CoreV1().Secrets("ns").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again := &remoteSource{client: client, namespace: "ns", name: "p", applier: r.applier, log: quiet(), now: time.Now,
		applied: r.applier.history.newest()}
	again.accept(t.Context(), secret)
	again.pass(t.Context())
	if got := string(stored(t, client)[nodeplan.KeySuccessCount]); got != "1" {
		t.Errorf("success count after a restart = %s, want 1", got)
	}
	other, _ := newTestApplier(t)
	reinstalled := &remoteSource{client: client, namespace: "ns", name: "p", applier: other, log: quiet(),
		now: time.Now, applied: other.history.newest()}
	reinstalled.accept(t.Context(), secret)
	reinstalled.pass(t.Context())
	if got := string(stored(t, client)[nodeplan.KeySuccessCount]); got != "2" {
		t.Errorf("success count after the machine was reinstalled = %s, want 2", got)
	}
}

// deliver writes a plan into a later version of the Secret and makes a pass.
func deliver(t *testing.T, r *remoteSource, client *fake.Clientset, text string) {
	t.Helper()
	replaceStored(t, client, func(s *corev1.Secret) {
		s.ResourceVersion = r.current.ResourceVersion + "0"
		s.Data[nodeplan.KeyPlan] = []byte(text)
	})
	if !r.refresh(t.Context()) {
		t.Fatal("the secret cannot be read")
	}
	r.pass(t.Context())
}

func TestRemote_RestoredServerDoesNotRollBackTheNode(t *testing.T) {
	second, third := strings.ReplaceAll(echoPlan, "hi", "two"), strings.ReplaceAll(echoPlan, "hi", "three")
	for name, restored := range map[string]func(*corev1.Secret){
		"in the same cluster, by a restore of etcd": func(*corev1.Secret) {},
		"in another management cluster": func(s *corev1.Secret) {
			s.UID, s.ResourceVersion = "elsewhere", "900000"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, client := newTestRemote(t, secretData(echoPlan))
			r.pass(t.Context())
			backup, err := client.CoreV1().Secrets("ns").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			backup = backup.DeepCopy()
			deliver(t, r, client, second)
			if r.applied != nodeplan.Checksum([]byte(second)) {
				t.Fatal("the second plan was not applied")
			}
			restored(backup)
			replaceStored(t, client, func(s *corev1.Secret) { *s = *backup })
			again := &remoteSource{client: client, namespace: "ns", name: "p", applier: r.applier, log: quiet(),
				now: time.Now, applied: r.applier.history.newest()}
			again.accept(t.Context(), backup)
			again.pass(t.Context())
			if newest := r.applier.history.newest(); newest != nodeplan.Checksum([]byte(second)) {
				t.Error("the plan of the backup was applied again")
			}
			deliver(t, again, client, third)
			if newest := r.applier.history.newest(); newest != nodeplan.Checksum([]byte(third)) {
				t.Error("the first plan after the restore was not applied")
			}
		})
	}
}

func TestRemote_MovedSecretIsConfirmed(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	r.pass(t.Context())
	moved := r.current.DeepCopy()
	moved.UID, moved.ResourceVersion = "elsewhere", "7"
	replaceStored(t, client, func(s *corev1.Secret) { *s = *moved })
	if !r.accept(t.Context(), moved) {
		t.Fatal("the secret must start a pass")
	}
	r.pass(t.Context())
	if got := string(stored(t, client)[nodeplan.KeySuccessCount]); got != "1" {
		t.Errorf("the plan was applied %s times", got)
	}
}

// failUpdates makes updates fail with the given errors in order. touch runs before each failure.
func failUpdates(client *fake.Clientset, touch func(), errs ...error) {
	var n atomic.Int32
	client.PrependReactor("update", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		i := int(n.Add(1)) - 1
		if i >= len(errs) {
			return false, nil, nil
		}
		touch()
		return true, nil, errs[i]
	})
}

var secretResource = schema.GroupResource{Resource: "secrets"}

func replaceStored(t *testing.T, client *fake.Clientset, change func(*corev1.Secret)) {
	t.Helper()
	obj, err := client.Tracker().Get(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "ns", "p")
	if err != nil {
		t.Fatal(err)
	}
	secret := obj.(*corev1.Secret).DeepCopy()
	change(secret)
	if err := client.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, secret,
		"ns"); err != nil {
		t.Fatal(err)
	}
}

func TestRemote_ConflictOverTheSamePlanIsMerged(t *testing.T) {
	for name, script := range map[string]string{"success": "echo hi", "failure": "exit 1"} {
		t.Run(name, func(t *testing.T) {
			r, client := newTestRemote(t, secretData(strings.Replace(echoPlan, "echo hi", script, 1)))
			failUpdates(client, func() {
				replaceStored(t, client, func(s *corev1.Secret) {
					s.Labels = map[string]string{"touched": "yes"}
					s.ResourceVersion = "2"
				})
			}, apierrors.NewConflict(secretResource, "p", errors.New("changed")))
			r.pass(t.Context())
			if r.current.Labels["touched"] != "yes" {
				t.Error("the other writer's change was lost")
			}
			state, err := nodeplan.Parse("ns/p", stored(t, client))
			if err != nil || state.InSync == state.Failed || state.InSync != (name == "success") {
				t.Errorf("in sync %v, failed %v, %v", state.InSync, state.Failed, err)
			}
		})
	}
}

func TestRemote_ReplacedPlanDropsTheResult(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	failUpdates(client, func() {
		replaceStored(t, client, func(s *corev1.Secret) {
			s.Data[nodeplan.KeyPlan] = []byte(`{}`)
			s.ResourceVersion = "2"
		})
	}, apierrors.NewConflict(secretResource, "p", errors.New("changed")))
	if wait := r.pass(t.Context()); wait != replacedDelay {
		t.Errorf("next pass in %v, want %v", wait, replacedDelay)
	}
	if _, reported := stored(t, client)[nodeplan.KeyAppliedChecksum]; reported {
		t.Error("the result of the old plan was reported for the new plan")
	}
	r.pass(t.Context())
	if state, err := nodeplan.Parse("ns/p", stored(t, client)); err != nil || !state.InSync {
		t.Errorf("the new plan was not applied: %v", err)
	}
}

func TestRemote_ReportSurvivesAnUnavailableServer(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	failUpdates(client, func() {}, errors.New("connection refused"))
	r.pass(t.Context())
	if state, err := nodeplan.Parse("ns/p", stored(t, client)); err != nil || !state.InSync || state.SuccessCount != 1 {
		t.Errorf("in sync %v after %d runs, %v", state.InSync, state.SuccessCount, err)
	}
}

func TestRemote_TooLargeReportLosesItsOutput(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	failUpdates(client, func() {}, apierrors.NewRequestEntityTooLargeError("limit"))
	r.pass(t.Context())
	state, err := nodeplan.Parse("ns/p", stored(t, client))
	if err != nil || !state.InSync || len(state.Output) != 0 {
		t.Errorf("in sync %v, output %q, %v", state.InSync, state.Output, err)
	}
}

func TestRemote_StateMode(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan, nodeplan.KeyPlanState, "pending"))
	var states []string
	client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		secret := action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret)
		states = append(states, string(secret.Data[nodeplan.KeyPlanState])+" "+
			string(secret.Data[nodeplan.KeyPlanRevision]))
		return false, nil, nil
	})
	r.pass(t.Context())
	r.pass(t.Context())
	if got, want := strings.Join(states, ", "), "in-progress 1, succeeded 1"; got != want {
		t.Errorf("states = %s, want %s", got, want)
	}
}

func TestRemote_NothingRunsBeforeTheStartIsRecorded(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	r, client := newTestRemote(t, secretData(strings.Replace(echoPlan, "echo hi", "touch "+marker, 1),
		nodeplan.KeyPlanState, "pending"))
	failUpdates(client, func() {}, errors.New("connection refused"))
	r.pass(t.Context())
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Error("the plan ran although its start could not be recorded")
	}
}

func TestRemote_Accept(t *testing.T) {
	r, client := newTestRemote(t, nil)
	state := func(uid, version string) *corev1.Secret {
		s := r.current.DeepCopy()
		s.ResourceVersion = version
		if uid != "" {
			s.UID = "u2"
		}
		return s
	}
	if r.accept(t.Context(), state("", "1")) {
		t.Error("a known state started a pass")
	}
	if !r.accept(t.Context(), state("", "5")) {
		t.Error("a newer state did not start a pass")
	}
	before := len(client.Actions())
	if !r.accept(t.Context(), state("", "3")) || len(client.Actions()) != before+1 {
		t.Error("an older state must be checked by reading the secret")
	}
	r.applied = "sum"
	if !r.accept(t.Context(), state("u2", "1")) || r.applied != "" {
		t.Error("a recreated secret must start a pass")
	}
	if r.accept(t.Context(), nil) || r.current != nil {
		t.Error("a deleted secret needs no pass")
	}
}

func TestRemote_RunFollowsTheSecret(t *testing.T) {
	r, client := newTestRemote(t, nil)
	r.current, r.uid = nil, ""
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	waitFor(t, func() bool {
		for _, action := range client.Actions() {
			if action.GetVerb() == "watch" {
				return true
			}
		}
		return false
	})
	replaceStored(t, client, func(s *corev1.Secret) { s.Data = secretData(echoPlan); s.ResourceVersion = "2" })
	waitFor(t, func() bool { return len(stored(t, client)[nodeplan.KeyAppliedChecksum]) > 0 })
	cancel()
	<-done
}

func TestLocal(t *testing.T) {
	a, dir := newTestApplier(t)
	plans := filepath.Join(dir, "plans")
	for name, text := range map[string]string{
		"a/one.plan": echoPlan, "b/fails.plan": `{"instructions":[{"name":"x","command":"false"}]}`,
		".hidden.plan": echoPlan, "skipped.plan": echoPlan, "skipped.plan.skip": "", "other.txt": echoPlan,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(plans, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(plans, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := &localSource{dir: plans, applier: a, log: quiet()}
	found := l.plans()
	if len(found) != 2 {
		t.Fatalf("plans = %v", found)
	}
	for _, path := range found {
		if err := l.pass(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	one := readPosition(filepath.Join(plans, "a", "one.pos"))
	output, err := nodeplan.DecodeOutput("output", one.Output)
	if err != nil || string(output["a"]) != "hi\n" || one.AppliedChecksum != nodeplan.Checksum([]byte(echoPlan)) {
		t.Errorf("position = %+v, %v", one, err)
	}
	if failed := readPosition(filepath.Join(plans, "b", "fails.pos")); failed.AppliedChecksum == "" {
		t.Error("a failed local plan counts as applied")
	}
	before := inode(t, filepath.Join(plans, "a", "one.pos"))
	if err := l.pass(t.Context(), filepath.Join(plans, "a", "one.plan")); err != nil ||
		inode(t, filepath.Join(plans, "a", "one.pos")) != before {
		t.Errorf("an idle pass wrote the position again: %v", err)
	}
}

func TestProbes_CounterNeverBlocksPlan(t *testing.T) {
	a, _ := newTestApplier(t)
	r := mustApply(t, a,
		applyInput{apply: true,
			plan: plan.NodePlan{
				Probes: map[string]plan.Probe{
					"down": {HTTPGetAction: plan.HTTPGetAction{URL: "http://127.0.0.1:1/"}}}}})
	if !r.succeeded || r.probes["down"].Healthy {
		t.Errorf("result = %+v", r)
	}
}
