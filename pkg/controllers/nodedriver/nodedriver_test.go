package nodedriver

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/testkit/driverjobs"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// play runs a story with a manager, in virtual time.
func play(t *testing.T, prepare func(*story), part func(*story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		if prepare != nil {
			prepare(s)
		}
		s.start()
		part(s)
		s.stop()
		s.user.Stop()
		s.elapse(time.Minute)
	})
}

// secure is the specification of a driver that needs no opt-out.
func secure(name string) mgmtv3.NodeDriverSpec {
	return mgmtv3.NodeDriverSpec{URL: "https://example.org/docker-machine-driver-" + name, Checksum: checksum}
}

func (s *story) add(name string, spec mgmtv3.NodeDriverSpec, annotations map[string]string) {
	s.Helper()
	spec.Active = true
	_, err := s.user.Management.NodeDriver().Create(
		&mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec})
	must(s.T, err)
	s.elapse(10 * time.Second)
}

func (s *story) driver(name string) *mgmtv3.NodeDriver {
	s.Helper()
	driver, err := s.user.Management.NodeDriver().Get(name, metav1.GetOptions{})
	must(s.T, err)
	return driver
}

// expect fails unless a condition of a driver has a status and a text in its message.
func (s *story) expect(name, kind, status, text string) {
	s.Helper()
	c := conditions.Get(s.driver(name).Status.Conditions, kind)
	if c == nil || c.Status != status || !strings.Contains(c.Message, text) ||
		c.Message != "" && !strings.HasPrefix(c.Message, "NodeDriver "+name+": ") {
		s.Errorf("condition %s of %s is %+v, want %s with %q", kind, name, c, status, text)
	}
}

func (s *story) jobs() (jobs []*batchv1.Job) {
	s.Helper()
	list, err := s.user.Batch.Job().List("drover-system", metav1.ListOptions{})
	must(s.T, err)
	for i := range list.Items {
		jobs = append(jobs, &list.Items[i])
	}
	return jobs
}

func (s *story) fields(schema string) map[string]mgmtv3.Field {
	s.Helper()
	found, err := s.user.Management.DynamicSchema().Get(schema, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return found.Spec.ResourceFields
}

// A driver is asked once, in a Job, and a settled driver costs nothing.
func TestInstall_AThirdPartyDriver(t *testing.T) {
	play(t, nil, func(s *story) {
		s.add("sim", secure("sim"), map[string]string{
			mgmtv3.PrivateCredentialFieldsAnnotation: "token", mgmtv3.FileToFieldAliasesAnnotation: "cpuFile:cpuCount",
		})
		driver := s.driver("sim")
		if driver.Annotations[driverschema.DriverSHA256Annotation] != checksum || driver.Spec.DisplayName != "sim" ||
			driver.Status.AppliedURL != driver.Spec.URL ||
			driver.Annotations[mgmtv3.UIFieldHintsAnnotation] != `{"cpuFile":{"type":"multiline"}}` {
			s.Errorf("driver is %+v %+v", driver.ObjectMeta, driver.Status)
		}
		s.expect("sim", mgmtv3.NodeDriverConditionInstalled, "True", "")
		schema, err := s.user.Management.DynamicSchema().Get("simconfig", metav1.GetOptions{})
		must(t, err)
		if schema.Spec.ResourceFields["token"].Type != "password" ||
			schema.Spec.ResourceFields["cpuFile"].Default.StringValue != "2" ||
			schema.Labels["io.cattle.node_driver.name"] != "sim" || schema.OwnerReferences[0].UID != driver.UID {
			s.Errorf("schema is %+v %+v", schema.ObjectMeta, schema.Spec.ResourceFields)
		}
		credential, err := s.user.Management.DynamicSchema().Get("simcredentialconfig", metav1.GetOptions{})
		if err != nil || len(credential.Spec.ResourceFields) != 1 || len(credential.Labels) > 0 ||
			!credential.Spec.ResourceFields["token"].Required {
			s.Errorf("schema of the credential is %+v, %v", credential, err)
		}
		if _, has := s.fields("nodetemplateconfig")["simConfig"]; !has {
			s.Error("the list of drivers lacks the driver")
		}
		s.api.ResetLog()
		s.elapse(3 * time.Hour)
		if ran := s.ran.Load(); ran != 1 {
			s.Errorf("%d Jobs ran, want one", ran)
		}
		if writes := s.api.Writes(manager); len(writes) > 0 {
			s.Errorf("a settled driver costs %d writes: %v", len(writes), writes[:min(len(writes), 5)])
		}
		if jobs := s.jobs(); len(jobs) > 0 {
			s.Errorf("%d Jobs of the installed driver are left", len(jobs))
		}
		must(t, s.user.Management.NodeDriver().Delete("sim", nil))
		s.elapse(time.Minute)
		if _, has := s.fields("nodetemplateconfig")["simConfig"]; has || len(s.jobs()) > 0 {
			s.Errorf("the list of drivers contains the deleted driver, or Jobs remain: %v", s.jobs())
		}
	})
}

// A broken driver reports the problem in its condition, and other drivers work.
func TestInstall_FailuresAffectOneDriver(t *testing.T) {
	flags := func(text string) driverjobs.Outcome {
		return driverjobs.Outcome{Download: driverjob.Download{Name: "good", SHA256: checksum}.Encode(),
			Failed: driverjob.FlagsContainer, Flags: text}
	}
	outcomes := map[string]driverjobs.Outcome{
		"page": {Failed: driverjob.DownloadContainer,
			Download: "spec.url: the download must be an ELF program, a zip or a gzipped tar"},
		"chatty": flags("the program is not a driver"),
		"silent": flags(""),
		"liar":   {Download: driverjob.Download{Name: "liar", SHA256: strings.Repeat("b", 64)}.Encode(), Flags: "x"},
		"hostile": {Download: driverjob.Download{Name: "hostile", SHA256: checksum}.Encode(),
			Flags: strings.Repeat("x", 10_000)},
	}
	prepare := func(s *story) {
		s.outcome = func(job *batchv1.Job) driverjobs.Outcome {
			if found, ok := outcomes[job.Annotations[driverjob.DriverAnnotation]]; ok {
				return found
			}
			return works(job)
		}
	}
	play(t, prepare, func(s *story) {
		for name, want := range map[string][2]string{
			"page":   {"Downloaded", "must be an ELF program"},
			"liar":   {"Downloaded", "compare it with the vendor's"},
			"chatty": {"Installed", "is not a driver"}, "silent": {"Installed", "exit status 1"},
			"hostile": {"Installed", "unreadable"},
		} {
			s.add(name, secure(name), nil)
			s.expect(name, want[0], "False", want[1])
		}
		s.add("local", mgmtv3.NodeDriverSpec{URL: "local://"}, nil)
		s.expect("local", "Installed", "False", `no driver "local"`)
		s.add("aliases", secure("aliases"), map[string]string{mgmtv3.FileToFieldAliasesAnnotation: "broken"})
		s.expect("aliases", "Installed", "False", mgmtv3.FileToFieldAliasesAnnotation)
		s.add("good", secure("good"), nil)
		s.expect("good", "Installed", "True", "")
		s.add("thief", secure("good"), nil)
		s.expect("thief", "Installed", "False", "NodeDriver good has installed")
	})
}

// A failed Job is repeated with a growing delay, and the schemas of the earlier program stay meanwhile.
func TestInstall_RepeatsAFailureWithAGrowingDelay(t *testing.T) {
	var broken atomic.Bool
	prepare := func(s *story) {
		s.outcome = func(job *batchv1.Job) driverjobs.Outcome {
			if broken.Load() {
				return driverjobs.Outcome{Failed: driverjob.DownloadContainer, Download: "download the driver: 503"}
			}
			return works(job)
		}
	}
	play(t, prepare, func(s *story) {
		s.add("sim", secure("sim"), nil)
		broken.Store(true)
		s.edit("sim", `{"spec":{"url":"https://example.org/v2/docker-machine-driver-sim"}}`)
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "False", "503")
		s.elapse(2 * time.Hour)
		before := s.ran.Load()
		s.elapse(2 * time.Hour)
		if last := s.ran.Load() - before; before < 7 || before > 10 || last < 1 || last > 2 {
			s.Errorf("%d Jobs ran in two hours, and %d in the next two: want a growing delay of up to an hour", before,
				last)
		}
		if len(s.fields("simconfig")) != 4 || len(s.kinds("sim")) != 3 ||
			s.driver("sim").Status.AppliedURL != secure("sim").URL {
			s.Errorf("the driver lost its fields, its kinds or its URL: %v", s.kinds("sim"))
		}
		broken.Store(false)
		s.elapse(time.Hour)
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "True", "")
	})
}

// A Job that asks about an earlier URL is deleted.
func TestInstall_AChangedDriverEndsTheOldJob(t *testing.T) {
	prepare := func(s *story) { s.hold.Store(true) }
	play(t, prepare, func(s *story) {
		s.add("sim", secure("sim"), nil)
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "Unknown", "a Job in Drover's namespace")
		before := s.jobs()
		s.edit("sim", `{"spec":{"url":"https://example.org/v2/docker-machine-driver-sim"}}`)
		after := s.jobs()
		if len(before) != 1 || len(after) != 1 || before[0].Name == after[0].Name {
			s.Errorf("Jobs are %v, then %v", before, after)
		}
	})
}

// Tenants may write pods and Jobs in their namespaces, but cannot answer for a driver.
func TestInstall_IgnoresJobsOfTenants(t *testing.T) {
	prepare := func(s *story) { s.hold.Store(true) }
	play(t, prepare, func(s *story) {
		s.add("sim", secure("sim"), nil)
		forged := s.jobs()[0].DeepCopy()
		for _, namespace := range []string{tenant, "drover-system"} {
			pod := &corev1.Pod{ObjectMeta: *forged.Spec.Template.ObjectMeta.DeepCopy()}
			pod.Namespace, pod.Name = namespace, forged.Name
			pod.Labels[batchv1.JobNameLabel] = forged.Name
			_, err := s.user.Core.Pod().Create(pod)
			must(t, err)
		}
		forged.Namespace, forged.ResourceVersion, forged.UID = tenant, "", ""
		created, err := s.user.Batch.Job().Create(forged)
		must(t, err)
		must(t, driverjobs.End(t.Context(), s.kubelet, created, works(created)))
		s.elapse(time.Minute)
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "Unknown", "a Job in Drover's namespace")
		if s.fields("simconfig") != nil {
			s.Error("the answer of a tenant's Job was used")
		}
	})
}

// Without https or a strong checksum, a driver is refused, unless the administrator permits it.
func TestInstall_RefusesWhatItCannotVerify(t *testing.T) {
	weak := mgmtv3.NodeDriverSpec{URL: "http://example.org/docker-machine-driver-sim",
		Checksum: strings.Repeat("a", 32)}
	play(t, nil, func(s *story) {
		s.add("sim", weak, nil)
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "False", "spec.url: must be an https address")
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "False", "spec.checksum: must be the SHA-256")
		s.elapse(time.Hour)
		if ran := s.ran.Load(); ran > 0 {
			s.Errorf("%d Jobs ran", ran)
		}
		s.edit("sim", `{"spec":{"url":"`+secure("sim").URL+`","checksum":"`+checksum+`"}}`)
		s.expect("sim", mgmtv3.NodeDriverConditionInstalled, "True", "")
	})
	play(t, func(s *story) { s.settings.Insecure = true }, func(s *story) {
		s.add("sim", weak, nil)
		s.expect("sim", mgmtv3.NodeDriverConditionInstalled, "True", "")
	})
}

// A driver that an earlier version installed keeps its kinds, and reports what is missing.
func TestInstall_KeepsAnInsecureDriverThatIsInUse(t *testing.T) {
	play(t, func(s *story) { s.settings.Insecure = true }, func(s *story) {
		s.add("sim", mgmtv3.NodeDriverSpec{URL: "http://example.org/docker-machine-driver-sim"}, nil)
		s.stop()
		s.elapse(time.Minute)
		s.settings.Insecure = false
		s.start()
		s.elapse(time.Minute)
		s.expect("sim", mgmtv3.NodeDriverConditionInstalled, "True", "")
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "True", "")
		s.expect("sim", mgmtv3.NodeDriverConditionVerifiable, "False", "spec.checksum: must be")
		if len(s.fields("simconfig")) != 4 || len(s.kinds("sim")) != 3 {
			s.Errorf("the driver lost its fields or kinds: %v", s.kinds("sim"))
		}
		s.api.ResetLog()
		s.elapse(time.Hour)
		if writes := s.api.Writes(manager); len(writes) > 0 {
			s.Errorf("%d writes in an hour: %v", len(writes), writes[:min(len(writes), 5)])
		}
		s.edit("sim", `{"spec":{"url":"http://example.org/v2/docker-machine-driver-sim"}}`)
		s.expect("sim", mgmtv3.NodeDriverConditionDownloaded, "False", "spec.url: must be an https address")
		if len(s.kinds("sim")) != 3 || !strings.Contains(s.driver("sim").Status.AppliedURL, "org/docker") {
			s.Errorf("the driver lost its kinds or its URL: %v, %q", s.kinds("sim"), s.driver("sim").Status.AppliedURL)
		}
		s.edit("sim", `{"spec":{"url":"`+secure("sim").URL+`","checksum":"`+checksum+`"}}`)
		s.expect("sim", mgmtv3.NodeDriverConditionInstalled, "True", "")
		if c := conditions.Get(s.driver("sim").Status.Conditions, mgmtv3.NodeDriverConditionVerifiable); c != nil {
			s.Errorf("the condition stays: %+v", c)
		}
	})
}

// A proxy's password goes to the download in a Secret that is deleted with the Job.
func TestInstall_ThroughAProxyWithAPassword(t *testing.T) {
	prepare := func(s *story) {
		s.hold.Store(true)
		s.settings.Proxy = map[string]string{"HTTPS_PROXY": "http://u:hunter2@proxy:3128"}
	}
	play(t, prepare, func(s *story) {
		s.add("sim", secure("sim"), nil)
		name := s.jobs()[0].Name
		// As if the server had crashed before the write.
		must(t, s.user.Core.Secret().Delete("drover-system", name, nil))
		s.elapse(time.Second)
		s.edit("sim", `{"metadata":{"labels":{"x":"y"}}}`)
		secret, err := s.user.Core.Secret().Get("drover-system", name, metav1.GetOptions{})
		must(t, err)
		if string(secret.Data["HTTPS_PROXY"]) != s.settings.Proxy["HTTPS_PROXY"] ||
			secret.OwnerReferences[0].Kind != "Job" {
			s.Errorf("Secret is %+v", secret)
		}
		s.hold.Store(false)
		s.elapse(time.Minute)
		s.expect("sim", mgmtv3.NodeDriverConditionInstalled, rkev1.ConditionTrue, "")
	})
}

func TestSeed_IsRepeatable(t *testing.T) {
	play(t, nil, func(s *story) {
		client := s.user.Management.NodeDriver()
		for range 2 {
			must(t, Seed(client, "amd64"))
		}
		s.elapse(time.Minute)
		s.expect("amazonec2", mgmtv3.NodeDriverConditionInstalled, "True", "")
		if s.driver("exoscale").Spec.Active {
			s.Error("exoscale is active")
		}
		if _, has := s.fields("nodeconfig")["azureConfig"]; !has {
			s.Error("the list of drivers lacks azure")
		}
	})
}

// The driver of a vendor is downloaded only after its activation. Drover keeps the version that an administrator chose.
func TestSeed_VendorsDriver(t *testing.T) {
	play(t, nil, func(s *story) {
		client := s.user.Management.NodeDriver()
		must(t, Seed(client, "amd64"))
		s.elapse(time.Minute)
		if ran := s.ran.Load(); ran != 0 || s.fields("linodeconfig") != nil || len(s.kinds("linode")) > 0 {
			s.Errorf("an inactive driver was installed: %d Jobs", ran)
		}
		url := secure("linode").URL
		s.edit("linode", `{"spec":{"active":true,"url":"`+url+`","checksum":"`+checksum+`"}}`)
		s.elapse(time.Minute)
		s.expect("linode", mgmtv3.NodeDriverConditionInstalled, "True", "")
		must(t, Seed(client, "amd64"))
		if got := s.driver("linode").Spec; got.URL != url || !got.Active {
			s.Errorf("the administrator's choice is lost: %+v", got)
		}
	})
}
