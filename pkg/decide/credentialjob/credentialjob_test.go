package credentialjob

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

func credential() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cc-aws", UID: "u1", ResourceVersion: "7"},
		Data: map[string][]byte{"amazonec2credentialConfig-accessKey": []byte("AKID"),
			"amazonec2credentialConfig-secretKey": []byte("hunter2"), "other": []byte("x")},
	}
}

func config(fields map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: fields}
	out.SetUID("c1")
	return out
}

func question() Question {
	return Ask(Amazon, credential(), config(map[string]any{"region": "eu-central-1"}))
}

// The driver uses the credential's value, too. With another order, a user who may only use a credential could send its
// password to any host.
func TestAsk_TheCredentialWins(t *testing.T) {
	t.Parallel()
	got := Ask(Amazon, credential(), config(map[string]any{"region": "eu-central-1", "accessKey": "OTHER",
		"secretKey": "", "insecureTransport": true, "ami": "x"}))
	want := map[string]string{"accessKey": "AKID", "secretKey": "hunter2", "region": "eu-central-1",
		"insecureTransport": "true"}
	if diff := cmp.Diff(want, got.Fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	vsphere := credential()
	vsphere.Data = map[string][]byte{"vmwarevspherecredentialConfig-password": []byte("hunter2"),
		"vmwarevspherecredentialConfig-vcenter": []byte("vc.test")}
	other := Ask(VSphere, vsphere, config(map[string]any{"vcenter": "other.test", "vcenterPort": "443"}))
	if diff := cmp.Diff(map[string]string{"password": "hunter2", "vcenter": "vc.test", "vcenterPort": "443"},
		other.Fields); diff != "" {
		t.Errorf("vSphere (-want +got):\n%s", diff)
	}
	if same := Ask(VSphere, vsphere, config(map[string]any{"vcenterPort": "443"})); same.Name() != other.Name() {
		t.Error("a field that the driver does not use makes another question")
	}
	if HasCheck("digitalocean") || !HasCheck(VSphere) {
		t.Error("other drivers have a check")
	}
}

// TestName_FollowsTheVersionAndTheAddress: each is checked once, whichever machine config asks.
func TestName_FollowsTheVersionAndTheAddress(t *testing.T) {
	t.Parallel()
	first := question().Name()
	for name, change := range map[string]struct {
		credential func(*corev1.Secret)
		fields     map[string]any
		same       bool
	}{
		"another machine config for the same region": {nil, map[string]any{"region": "eu-central-1", "ami": "y"}, true},
		"another region": {nil, map[string]any{"region": "eu-west-1"}, false},
		"another endpoint": {nil, map[string]any{"region": "eu-central-1", "endpoint": "ec2.test"},
			false},
		"a secret in the machine config": {nil, map[string]any{"region": "eu-central-1", "sessionToken": "s"}, false},
		"another version": {func(s *corev1.Secret) { s.ResourceVersion = "8" },
			map[string]any{"region": "eu-central-1"},
			false},
		"another Secret of the name": {func(s *corev1.Secret) { s.UID = "u2" },
			map[string]any{"region": "eu-central-1"},
			false},
	} {
		secret := credential()
		if change.credential != nil {
			change.credential(secret)
		}
		if got := Ask(Amazon, secret, config(change.fields)).Name(); (got == first) != change.same {
			t.Errorf("%s: name %s, the first is %s", name, got, first)
		}
	}
}

func settings() Settings {
	return Settings{Image: "registry.example.com/drover-io/drover:v1", Authorities: "PEM",
		Proxy: map[string]string{"HTTPS_PROXY": "http://proxy:3128"}}
}

func record(t *testing.T) *corev1.Secret {
	t.Helper()
	out, err := Record(question(), credential(),
		&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo", UID: "d1"}}, settings())
	if err != nil {
		t.Fatal(err)
	}
	out.UID = "r1"
	return out
}

// The golden file shows the whole Job. It contains no value of the credential.
func TestJob(t *testing.T) {
	content, err := yaml.Marshal(Job(record(t), settings(), []string{"pull"}))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "hunter2") {
		t.Error("the Job contains the credential")
	}
	golden.Check(t, "testdata/job.yaml", string(content))
}

func TestRecord_LosesTheCredentialWithItsResult(t *testing.T) {
	t.Parallel()
	made := record(t)
	asked, err := DecodeQuestion(string(made.Data[Variable]))
	if err != nil || asked.Fields["secretKey"] != "hunter2" || asked.Authorities != "PEM" {
		t.Fatalf("question %+v, error %v", asked, err)
	}
	done := Finished(made, Result{Reason: ReasonAccepted, Message: "EC2 accepts the access key"})
	if encoded, _ := json.Marshal(done); len(done.Data) != 1 || strings.Contains(string(encoded), "hunter2") {
		t.Errorf("the record is %s", encoded)
	}
	newer := credential()
	newer.ResourceVersion = "8"
	if Outdated(done, credential()) || !Outdated(done, newer) || !Outdated(done, nil) {
		t.Error("a record is outdated when the credential has another version, and only then")
	}
}

// TestDecide_RunsOneJobForARecord also covers what a crash between two writes leaves.
func TestDecide_RunsOneJobForARecord(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 30, 12, 0, 0, 0, time.UTC)
	asked := record(t)
	answered := Finished(asked, Result{Reason: ReasonRejected, Message: "no"})
	running := Job(asked, settings(), nil)
	running.UID = "j1"
	ended := func(kind batchv1.JobConditionType, age time.Duration) *batchv1.Job {
		out := running.DeepCopy()
		out.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue,
			Reason: "DeadlineExceeded", LastTransitionTime: metav1.NewTime(now.Add(-age))}}
		return out
	}
	pods := func(message string) []*corev1.Pod {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", OwnerReferences: []metav1.
			OwnerReference{*metav1.NewControllerRef(running, batchv1.SchemeGroupVersion.WithKind("Job"))}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: container,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}}}}}
	}
	accepted := Result{Reason: ReasonAccepted, Message: "yes"}.Encode()
	for name, tc := range map[string]struct {
		record *corev1.Secret
		job    *batchv1.Job
		pods   []*corev1.Pod
		action Action
		reason string
	}{
		"nothing exists":            {nil, nil, nil, Begin, ""},
		"a record without its Job":  {asked, nil, nil, Run, ""},
		"the Job runs":              {asked, running, nil, Wait, ""},
		"the Job has the result":    {asked, ended(batchv1.JobComplete, 0), pods(accepted), Finish, ReasonAccepted},
		"the pod is not cached yet": {asked, ended(batchv1.JobComplete, time.Second), nil, Wait, ""},
		"the pod is gone":           {asked, ended(batchv1.JobComplete, time.Hour), nil, Finish, ReasonUnchecked},
		"the pod never started":     {asked, ended(batchv1.JobFailed, 0), nil, Finish, ReasonUnchecked},
		"another program answers":   {asked, ended(batchv1.JobComplete, 0), pods("usage:"), Finish, ReasonUnchecked},
		"the Job remains":           {answered, ended(batchv1.JobComplete, 0), nil, Tidy, ReasonRejected},
		"all is done":               {answered, nil, nil, Wait, ReasonRejected},
	} {
		got := Decide(tc.record, tc.job, tc.pods, now)
		reason := ""
		if got.Result != nil {
			reason = got.Result.Reason
		}
		if got.Action != tc.action || reason != tc.reason || (name == "the pod is not cached yet") != (got.After > 0) {
			t.Errorf("%s: %+v with reason %q", name, got, reason)
		}
	}
}

func TestDue_AMachineContradictsTheResult(t *testing.T) {
	t.Parallel()
	checked := time.Date(2026, 8, 30, 12, 0, 0, 0, time.UTC)
	before, after := checked.Add(-time.Minute), checked.Add(time.Minute)
	for name, tc := range map[string]struct {
		reason       string
		failed, made time.Time
		want         bool
	}{
		"nothing happened":                      {ReasonAccepted, before, before, false},
		"valid, and a Job failed":               {ReasonAccepted, after, before, true},
		"valid, and a host was made":            {ReasonAccepted, before, after, false},
		"rejected, and a Job failed":            {ReasonRejected, after, before, false},
		"rejected, and a host was made":         {ReasonRejected, before, after, true},
		"expired, and a host was made":          {ReasonExpired, before, after, true},
		"without an answer, and a Job failed":   {ReasonUnchecked, after, before, true},
		"without an answer, and a host is made": {ReasonUnchecked, before, after, true},
	} {
		done := Finished(record(t), Result{Reason: tc.reason, Message: "x", Checked: checked})
		seen := Evidence{Failed: before}.With(Evidence{Failed: tc.failed, Made: tc.made})
		want := time.Time{}
		if tc.want {
			want = checked.Add(time.Hour)
		}
		if got := Due(done, seen); !got.Equal(want) {
			t.Errorf("%s: due %s, want %s", name, got, want)
		}
	}
	if open := record(t); !Due(open, Evidence{Failed: after}).IsZero() || !IsOpen(open) {
		t.Error("a check that runs is not repeated")
	}
}

// A program other than Drover's could write the message.
func TestDecodeResult_OfAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"", "hello", "null", `{"reason":"CredentialInvalid"}`, `{"reason":"Other"}`} {
		if got, err := DecodeResult(message); err == nil {
			t.Errorf("%q: %+v", message, got)
		}
	}
	long := Result{Reason: ReasonRejected, Message: strings.Repeat("word ", 1000) + "\x1b[31m"}
	if got, err := DecodeResult(long.Encode()); err != nil || len(got.Message) > 2*maxText {
		t.Errorf("a message of %d bytes, %v", len(got.Message), err)
	}
}
