package driverjob

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

func sim() *mgmtv3.NodeDriver {
	return &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "sim", UID: "u1"}, Spec: mgmtv3.NodeDriverSpec{
		URL:      "https://files.example.com/docker-machine-driver-sim?$(HOME)",
		Checksum: strings.Repeat("0", 64),
	}}
}

func settings() Settings {
	return Settings{Namespace: "drover-system", Image: "registry.example.com/drover-io/drover:v1",
		PullSecrets: []string{"pull"}, Authorities: "PEM", Arch: "amd64",
		Proxy: map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".svc"}}
}

// The golden file shows the whole Job.
func TestRender(t *testing.T) {
	objects := Render(sim(), settings(), 2)
	if objects.Proxy != nil {
		t.Errorf("proxies without a password need no Secret: %v", objects.Proxy)
	}
	content, err := yaml.Marshal(objects.Job)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/job.yaml", string(content))
}

// The pod that runs third-party code has no credential: neither a token, nor a Secret, nor a proxy's password.
func TestRender_TheDriverGetsNoCredential(t *testing.T) {
	s := settings()
	s.Proxy["HTTPS_PROXY"] = "http://user:hunter2@proxy:3128"
	objects := Render(sim(), s, 1)
	spec := objects.Job.Spec.Template.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Error("the pod has a token of a service account")
	}
	flags := spec.Containers[0]
	if len(spec.Containers) != 1 || len(flags.Env)+len(flags.EnvFrom) > 0 || len(flags.VolumeMounts) != 1 ||
		!flags.VolumeMounts[0].ReadOnly {
		t.Errorf("the container that runs the driver is %+v", flags)
	}
	content, err := json.Marshal(objects.Job)
	if err != nil || strings.Contains(string(content), "hunter2") {
		t.Errorf("the Job contains the password of the proxy, %v", err)
	}
	if objects.Proxy == nil || string(objects.Proxy.Data["HTTPS_PROXY"]) != "http://user:hunter2@proxy:3128" ||
		spec.InitContainers[0].EnvFrom[0].SecretRef.Name != objects.Proxy.Name {
		t.Errorf("the Secret of the download is %+v", objects.Proxy)
	}
	owned := OwnedBy(objects.Proxy, objects.Job.Name, "u2")
	if len(owned.OwnerReferences) != 1 || owned.OwnerReferences[0].UID != "u2" {
		t.Errorf("owners of the Secret are %v", owned.OwnerReferences)
	}
}

// A change of the driver or of the image is another question, so another Job answers it.
func TestKey(t *testing.T) {
	seen := map[string]string{Key(sim(), settings()): "the same"}
	for name, change := range map[string]func(*mgmtv3.NodeDriver, *Settings){
		"another URL":      func(d *mgmtv3.NodeDriver, _ *Settings) { d.Spec.URL += "x" },
		"another checksum": func(d *mgmtv3.NodeDriver, _ *Settings) { d.Spec.Checksum = strings.Repeat("1", 64) },
		"another object":   func(d *mgmtv3.NodeDriver, _ *Settings) { d.UID = "u2" },
		"another image":    func(_ *mgmtv3.NodeDriver, s *Settings) { s.Image += "x" },
	} {
		driver, s := sim(), settings()
		change(driver, &s)
		if key := Key(driver, s); seen[key] != "" {
			t.Errorf("%s has the key of %s", name, seen[key])
		} else {
			seen[key] = name
		}
	}
	if name := Render(sim(), settings(), 1).Job.Name; name != Render(sim(), settings(), 1).Job.Name || len(name) > 63 {
		t.Errorf("the name %q is not stable", name)
	}
}

func TestFlags_SurviveTheMessage(t *testing.T) {
	want := []driverschema.Flag{
		{Name: "sim-token", Type: driverschema.FlagString, Usage: "Token", EnvVar: "SIM_TOKEN", Default: "ä"},
		{Name: "sim-tags", Type: driverschema.FlagList, List: []string{"a", "b"}},
	}
	message, err := EncodeFlags(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeFlags(message)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := DecodeFlags(must(EncodeFlags(nil))); err != nil || got == nil {
		t.Errorf("a driver without flags: %v, %v, want an empty list", got, err)
	}
}

func must(message string, err error) string {
	if err != nil {
		panic(err)
	}
	return message
}

// The flags of all drivers of rancher-machine fit with their whole descriptions.
func TestFlags_OfRealDriversFit(t *testing.T) {
	core, err := driverschema.LoadCore()
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range core.Drivers {
		message, err := EncodeFlags(flags)
		if err != nil || len(message) > MaxMessage*2/3 {
			t.Errorf("%s: %d bytes, %v", name, len(message), err)
			continue
		}
		got, err := DecodeFlags(message)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].Usage != strings.Join(strings.Fields(flags[i].Usage), " ") || got[i].Name != flags[i].Name {
				t.Errorf("%s: flag is %+v, want %+v", name, got[i], flags[i])
			}
		}
	}
}

// A driver with many long descriptions loses a part of them, but no flag. Beyond that it is refused.
func TestFlags_DescriptionsBecomeShorter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		var text strings.Builder
		for text.Len() < n {
			fmt.Fprintf(&text, "%x ", random.Uint32())
		}
		return text.String()
	}
	var flags []driverschema.Flag
	for i := range 120 {
		flags = append(flags, driverschema.Flag{Name: fmt.Sprintf("sim-flag-%d", i), Type: driverschema.FlagString,
			Usage: noise(300)})
	}
	got, err := DecodeFlags(must(EncodeFlags(flags)))
	if err != nil || len(got) != len(flags) || len(got[0].Usage) > 60 {
		t.Errorf("%d flags, %v", len(got), err)
	}
	for i := range flags {
		flags[i].Default = noise(100)
	}
	if _, err := EncodeFlags(flags); err == nil || !strings.Contains(err.Error(), "too many flags") {
		t.Errorf("error is %v", err)
	}
}

func pack(content string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write([]byte(content))
	_ = writer.Close()
	return answerPrefix + base64.StdEncoding.EncodeToString(out.Bytes())
}

// A hostile program writes the message itself.
func TestDecodeFlags_OfAHostileProgram(t *testing.T) {
	many, err := json.Marshal(make([]driverschema.Flag, MaxFlags+1))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 2000)
	for name, message := range map[string]string{
		"nothing": "", "another text": "hello", "no base64": answerPrefix + "!", "no gzip": answerPrefix + "aGVsbG8=",
		"too long":          answerPrefix + strings.Repeat("A", MaxMessage),
		"no JSON":           pack("hello"),
		"null":              pack("null"),
		"a bomb":            pack("[" + strings.Repeat(" ", 2<<20) + "]"),
		"many flags":        pack(string(many)),
		"a long name":       pack(`[{"name":"` + long + `"}]`),
		"a name with paths": pack(`[{"name":"../x","type":"string"}]`),
		"a long default":    pack(`[{"name":"sim-x","type":"string","default":"` + long + `"}]`),
		"a long list": pack(`[{"name":"sim-x","type":"list","list":[` + strings.Repeat(`"",`, maxItems) +
			`""]}]`),
		"a long entry":   pack(`[{"name":"sim-x","type":"list","list":["` + long + `"]}]`),
		"a bad variable": pack(`[{"name":"sim-x","type":"string","envVar":"A B"}]`),
	} {
		flags, err := DecodeFlags(message)
		if err == nil {
			t.Errorf("%s: %v", name, flags)
		} else if len(err.Error()) > 300 || outcome.CheckStable(err.Error()) != nil {
			t.Errorf("%s: the error is long or not stable: %v", name, err)
		}
	}
	got, err := DecodeFlags(pack(`[{"name":"sim-x","type":"string","usage":"a\u001b[31m\nb` + long + `"}]`))
	if err != nil || len(got[0].Usage) > maxText || strings.ContainsAny(got[0].Usage, "\x1b\n") {
		t.Errorf("a description with control characters: %q, %v", got, err)
	}
}

func TestDecodeDownload(t *testing.T) {
	want := Download{Name: "sim", SHA256: strings.Repeat("a", 64)}
	if got, err := DecodeDownload(want.Encode()); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for name, message := range map[string]string{
		"nothing": "", "no checksum": `{"name":"sim"}`,
		"a name with a path": Download{Name: "../x", SHA256: want.SHA256}.Encode(),
		"too long":           want.Encode() + strings.Repeat(" ", MaxMessage),
	} {
		if got, err := DecodeDownload(message); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// ended returns a Job that has ended and its pod.
func ended(kind batchv1.JobConditionType, download, flags *corev1.ContainerStateTerminated) (*batchv1.Job,
	*corev1.Pod) {
	job := Render(sim(), settings(), 1).Job
	job.UID = "job"
	job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue,
		Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit",
		LastTransitionTime: metav1.NewTime(noon)}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "p",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job,
			batchv1.SchemeGroupVersion.WithKind("Job"))}}}
	if download != nil {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: DownloadContainer,
			State: corev1.ContainerState{Terminated: download}}}
	}
	if flags != nil {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: FlagsContainer,
			State: corev1.ContainerState{Terminated: flags}}}
	}
	return job, pod
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func exit(code int32, message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Message: message}
}

func TestObserve(t *testing.T) {
	for name, test := range map[string]struct {
		kind            batchv1.JobConditionType
		download, flags *corev1.ContainerStateTerminated
		foreign         bool
		want            State
	}{
		"succeeded": {kind: batchv1.JobComplete, download: exit(0, "d"), flags: exit(0, "f"),
			want: State{Phase: machinejob.PhaseSucceeded, Downloaded: true, Download: "d", Flags: "f"}},
		"the download failed": {kind: batchv1.JobFailed, download: exit(1, "download the driver: 404 password=hunter2"),
			want: State{Phase: machinejob.PhaseFailed}},
		"the driver failed": {kind: batchv1.JobFailed, download: exit(0, "d"), flags: exit(1, "is not a driver"),
			want: State{Phase: machinejob.PhaseFailed, Downloaded: true, Download: "d", Message: "is not a driver"}},
		"the driver was killed": {kind: batchv1.JobFailed, download: exit(0, "d"), flags: exit(137, ""),
			want: State{Phase: machinejob.PhaseFailed, Downloaded: true, Download: "d",
				Message: "container flags ended with exit status 137: Error"}},
		"the pod belongs to another Job": {kind: batchv1.JobComplete, download: exit(0, "d"), flags: exit(0, "f"),
			foreign: true, want: State{Phase: machinejob.PhaseSucceeded}},
	} {
		job, pod := ended(test.kind, test.download, test.flags)
		if test.foreign {
			pod.OwnerReferences[0].UID = "other"
		}
		got := Observe(job, []*corev1.Pod{pod})
		if strings.Contains(got.Message, "hunter2") {
			t.Errorf("%s: message %q has a secret", name, got.Message)
		}
		if test.want.Message == "" && test.kind == batchv1.JobFailed {
			test.want.Message = got.Message
		}
		test.want.Name, test.want.UID, test.want.Key, test.want.Attempt, test.want.Ended = job.Name, "job",
			Key(sim(), settings()), 1, noon
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	job, _ := ended(batchv1.JobFailed, nil, nil)
	if got := Observe(job, nil); !strings.Contains(got.Message, "the Job failed: BackoffLimitExceeded") {
		t.Errorf("without a pod, the message is %q", got.Message)
	}
	job.Status.Conditions = nil
	pending := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job,
			batchv1.SchemeGroupVersion.WithKind("Job"))}}}
	pending.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: DownloadContainer}}
	pending.Status.InitContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
	}
	if got := Observe(job, []*corev1.Pod{pending}); got.Phase != machinejob.PhaseRunning ||
		got.Message != "its pod does not start: ImagePullBackOff; see the pods in Drover's namespace" {
		t.Errorf("a pod without an image: %+v", got)
	}
}

func TestDecide(t *testing.T) {
	answer := Download{Name: "sim", SHA256: strings.Repeat("0", 64)}
	other := Download{Name: "sim", SHA256: strings.Repeat("1", 64)}
	flags := must(EncodeFlags([]driverschema.Flag{{Name: "sim-x", Type: driverschema.FlagString}}))
	job := func(attempt int, phase machinejob.Phase, ago time.Duration) State {
		return State{Name: fmt.Sprintf("job-%d", attempt), Key: "k", Attempt: attempt, Phase: phase,
			Ended: noon.Add(-ago)}
	}
	with := func(s State, change func(*State)) State { change(&s); return s }
	failed := func(s *State) { s.Message = "404" }
	for name, test := range map[string]struct {
		jobs []State
		want Decision
	}{
		"no Job runs the first attempt": {nil, Decision{Run: 1, Waiting: asks}},
		"a running Job is awaited": {[]State{job(1, machinejob.PhaseRunning, 0)},
			Decision{Waiting: asks}},
		"a first pod that does not start": {[]State{with(job(1, machinejob.PhaseRunning, 0), failed)},
			Decision{Waiting: asks + "; 404"}},
		"a later pod that does not start": {[]State{with(job(2, machinejob.PhaseRunning, 0), failed)},
			Decision{Failed: "Downloaded", Message: "404"}},
		"a later attempt keeps the last failure": {[]State{with(job(1, machinejob.PhaseFailed, time.Hour), failed),
			job(2, machinejob.PhaseRunning, 0)}, Decision{}},
		"a failure is reported, and repeated after a minute": {
			[]State{with(job(1, machinejob.PhaseFailed, 10*time.Second), failed)},
			Decision{Failed: "Downloaded", Message: "404", After: 50 * time.Second}},
		"a failure of the driver itself": {
			[]State{with(job(1, machinejob.PhaseFailed, 0),
				func(s *State) { s.Downloaded, s.Message = true, "silent" })},
			Decision{Failed: "Installed", Message: "silent", After: time.Minute}},
		"the next attempt": {[]State{with(job(1, machinejob.PhaseFailed, time.Minute), failed)},
			Decision{Failed: "Downloaded", Message: "404", Run: 2}},
		"the delay grows": {[]State{with(job(4, machinejob.PhaseFailed, time.Minute), failed)},
			Decision{Failed: "Downloaded", Message: "404", After: 7 * time.Minute}},
		"the delay has a limit": {[]State{with(job(40, machinejob.PhaseFailed, 0), failed)},
			Decision{Failed: "Downloaded", Message: "404", After: time.Hour}},
		"a deleted Job keeps its number": {[]State{with(job(3, machinejob.PhaseFailed, 0),
			func(s *State) { s.Deleting = true })}, Decision{Run: 4, Waiting: asks}},
		"a Job of another URL is outdated": {[]State{with(job(1, machinejob.PhaseRunning, 0),
			func(s *State) { s.Key = "old" })}, Decision{Run: 1, Waiting: asks, Outdated: []string{"job-1"}}},
		"a finished Job of another URL stays": {[]State{with(job(1, machinejob.PhaseFailed, 0),
			func(s *State) { s.Key = "old" })}, Decision{Run: 1, Waiting: asks}},
		"a result": {[]State{with(job(1, machinejob.PhaseSucceeded, time.Hour), func(s *State) {
			s.Download, s.Flags = answer.Encode(), flags
		})}, Decision{Result: &Result{answer, []driverschema.Flag{{Name: "sim-x", Type: driverschema.FlagString}}}}},
		"the cache of pods is behind": {[]State{job(1, machinejob.PhaseSucceeded, 10*time.Second)},
			Decision{Waiting: asks, After: 20 * time.Second}},
		"the pod is gone": {[]State{job(1, machinejob.PhaseSucceeded, time.Minute)},
			Decision{Failed: "Installed", Message: "the pod of the Job is gone, and its result is unknown", Run: 2}},
		"another file": {[]State{with(job(1, machinejob.PhaseSucceeded, 0), func(s *State) {
			s.Download, s.Flags = other.Encode(), flags
		})}, Decision{Failed: "Downloaded", Message: driverschema.WrongChecksum(other.SHA256, answer.SHA256),
			After: time.Minute}},
		"a hostile answer": {[]State{with(job(1, machinejob.PhaseSucceeded, 0), func(s *State) {
			s.Download, s.Flags = answer.Encode(), "x"
		})}, Decision{Failed: "Installed", Message: "the answer of the driver is unreadable", After: time.Minute}},
	} {
		if diff := cmp.Diff(test.want, Decide("k", answer.SHA256, test.jobs, noon)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The Jobs of a failing driver count its attempts, so they must outlive the delay.
func TestDecide_FinishedJobsOutliveTheDelay(t *testing.T) {
	if kept <= maxBackoff {
		t.Errorf("a Job is kept for %v, and the next attempt may come after %v", kept, maxBackoff)
	}
}
