package nodedriver

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/controllers/dynamicschema"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/driverjobs"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	manager = "drover/manager"
	tenant  = "fleet-default"
)

// story is a management API with users that add drivers, and managers that start and stop.
type story struct {
	*testing.T
	api     *memkube.Server
	user    *clients.Clients
	configs dynamic.ResourceInterface // machine configs of the driver sim
	stop    func()
	// settings are those of the manager.
	settings driverjob.Settings
	// ran counts the Jobs that ended.
	ran atomic.Int32
	// outcome returns how a Job ends. Nil means as for a driver that works.
	outcome func(*batchv1.Job) driverjobs.Outcome
	// hold keeps Jobs running.
	hold    atomic.Bool
	kubelet kubernetes.Interface
	playing sync.Once
}

// play ends the Jobs of drivers, each a few seconds after its creation.
func (s *story) play() {
	for {
		select {
		case <-s.Context().Done():
			return
		case <-time.After(5 * time.Second):
		}
		for _, found := range s.api.Objects(batchv1.SchemeGroupVersion.WithKind("Job")) {
			job := &batchv1.Job{}
			must(s.T, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, job))
			if s.hold.Load() || driverjobs.Ended(job) || job.DeletionTimestamp != nil {
				continue
			}
			outcome := works(job)
			if s.outcome != nil {
				outcome = s.outcome(job)
			}
			if err := driverjobs.End(s.Context(), s.kubelet, job, outcome); err != nil && s.Context().Err() == nil {
				s.Error(err)
			}
			s.ran.Add(1)
		}
	}
}

// works is the outcome for a driver with the name of the file in its URL.
func works(job *batchv1.Job) driverjobs.Outcome {
	location := strings.TrimPrefix(job.Spec.Template.Spec.InitContainers[0].Args[2], "--url=")
	name := strings.TrimPrefix(path.Base(location), "docker-machine-driver-")
	flags, err := driverjob.EncodeFlags([]driverschema.Flag{
		{Name: name + "-token", Type: driverschema.FlagString, Usage: "Token", EnvVar: "TOKEN"},
		{Name: name + "-cpu-count", Type: driverschema.FlagInt, Default: "2"},
		{Name: name + "-fast", Type: driverschema.FlagBool},
		{Name: name + "-tags", Type: driverschema.FlagList, List: []string{"a"}},
	})
	if err != nil {
		return driverjobs.Outcome{Failed: driverjob.FlagsContainer, Flags: err.Error()}
	}
	return driverjobs.Outcome{Download: driverjob.Download{Name: name, SHA256: checksum}.Encode(), Flags: flags}
}

// checksum is the SHA-256 of every driver.
var checksum = strings.Repeat("a", 64)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStory(t *testing.T) *story {
	t.Helper()
	definitions, err := crds.All()
	must(t, err)
	scheme, err := clients.NewScheme()
	must(t, err)
	s := &story{T: t, settings: driverjob.Settings{Namespace: "drover-system", Image: "drover-io/drover:test"},
		api: memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions,
			Namespaces: []string{tenant, "drover-system"},
			Permit:     rights.Permit(t, manager)})}
	s.user, err = clients.New(s.api.Config("user"), clients.Options{Version: "user"})
	must(t, err)
	live, err := dynamic.NewForConfig(s.api.Config("user"))
	must(t, err)
	s.configs = live.Resource(schema.GroupVersionResource{Group: clients.MachineConfigGroup, Version: "v1",
		Resource: "simconfigs"}).Namespace(tenant)
	s.kubelet, err = kubernetes.NewForConfig(s.api.Config("kubelet"))
	must(t, err)
	return s
}

// start runs a manager as a new process would, including the seeds. A manager that was killed meanwhile does nothing
// more.
func (s *story) start() {
	s.Helper()
	s.playing.Do(func() { go s.play() })
	c, err := clients.New(s.api.Config("manager"), clients.Options{Version: "manager"})
	must(s.T, err)
	s.stop = c.Stop
	if err := Seed(c.Management.NodeDriver(), "amd64"); err != nil {
		s.Log("the manager cannot seed drivers:", err)
		return
	}
	must(s.T, Register(c.HandlerContext(), Deps{
		NodeDrivers: c.Management.NodeDriver(), DynamicSchemas: c.Management.DynamicSchema(), Jobs: c.Batch.Job(),
		Pods: c.Core.Pod(), Secrets: c.Core.Secret(), Settings: func() driverjob.Settings { return s.settings },
	}))
	must(s.T, dynamicschema.Register(c.HandlerContext(), dynamicschema.Deps{
		DynamicSchemas: c.Management.DynamicSchema(), CRDs: c.CRDs.CustomResourceDefinition(), Objects: c.Dynamic,
		Apply: c.Apply,
	}))
	ctx, cancel := context.WithCancel(s.Context())
	if err := c.Start(ctx); err != nil {
		s.Log("the manager does not start:", err)
	}
	s.stop = func() {
		cancel()
		c.Stop()
	}
}

// tell runs part with a manager that is killed after write n and replaced by another. It returns the number of writes.
func tell(t *testing.T, n int, part func(s *story)) (writes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		killed := make(chan struct{})
		if n > 0 {
			s.api.CutAfter(manager, n, func() { close(killed) })
		}
		s.start()
		go func() {
			select {
			case <-killed:
				s.stop()
				s.api.Mend(manager)
				s.start()
			case <-t.Context().Done():
			}
		}()
		part(s)
		writes = s.api.Written(manager)
		s.api.ResetLog()
		s.elapse(time.Hour)
		if late := s.api.Writes(manager); len(late) > 0 {
			t.Errorf("%d writes in an hour without changes: %v", len(late), late)
		}
		s.stop()
		s.user.Stop()
		s.elapse(time.Minute)
	})
	return writes
}

func (s *story) elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *story) edit(driver, patch string) {
	s.Helper()
	_, err := s.user.Management.NodeDriver().Patch(driver, types.MergePatchType, []byte(patch))
	must(s.T, err)
	s.elapse(3 * time.Minute)
}

// objects returns the drivers, their schemas and the kinds of machines, without what differs between runs.
func (s *story) objects() map[string]any {
	s.Helper()
	out := map[string]any{}
	owners := func(references []metav1.OwnerReference) (names []string) {
		for _, reference := range references {
			names = append(names, reference.Kind+" "+reference.Name)
		}
		return names
	}
	drivers, err := s.user.Management.NodeDriver().List(metav1.ListOptions{})
	must(s.T, err)
	for i := range drivers.Items {
		driver := &drivers.Items[i]
		for c := range driver.Status.Conditions {
			driver.Status.Conditions[c].LastUpdateTime, driver.Status.Conditions[c].LastTransitionTime = "", ""
		}
		out["NodeDriver "+driver.Name] = []any{driver.Labels, driver.Annotations, driver.Spec, driver.Status}
	}
	schemas, err := s.user.Management.DynamicSchema().List(metav1.ListOptions{})
	must(s.T, err)
	for i := range schemas.Items {
		schema := &schemas.Items[i]
		out["DynamicSchema "+schema.Name] = []any{schema.Labels, schema.Annotations, owners(schema.OwnerReferences),
			schema.Spec}
	}
	for _, crd := range s.api.Objects(apiextv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")) {
		if strings.HasPrefix(crd.GetAnnotations()["objectset.rio.cattle.io/id"], "dynamic-driver") {
			out["Definition "+crd.GetName()] = []any{crd.GetLabels(), crd.GetAnnotations(),
				owners(crd.GetOwnerReferences()), crd.Object["spec"]}
		}
	}
	return out
}

// kinds returns the names of a driver's CRDs.
func (s *story) kinds(driver string) (names []string) {
	for _, crd := range s.api.Objects(apiextv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")) {
		if strings.HasPrefix(crd.GetName(), driver) {
			names = append(names, crd.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// A third-party driver is installed, replaced, disabled, enabled and deleted, wherever the manager is killed.
func TestStory_ADriverComesAndGoesWhereverTheManagerIsKilled(t *testing.T) {
	crashpoints.SkipRaced(t)
	var want []map[string]any
	crashpoints.Each(t, 5, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []map[string]any
		writes = tell(t, n, func(s *story) {
			look := func() { got = append(got, s.objects()) }
			_, err := s.user.Management.NodeDriver().Create(&mgmtv3.NodeDriver{
				ObjectMeta: metav1.ObjectMeta{Name: "theirs", Annotations: map[string]string{
					mgmtv3.PrivateCredentialFieldsAnnotation: "token",
					mgmtv3.FileToFieldAliasesAnnotation:      "cpuFile:cpuCount",
				}},
				Spec: mgmtv3.NodeDriverSpec{Active: true, URL: "https://example.org/v1/docker-machine-driver-sim",
					Checksum: checksum},
			})
			must(s.T, err)
			s.elapse(3 * time.Minute)
			look()
			s.edit("theirs", `{"spec":{"url":"https://example.org/v2/docker-machine-driver-sim"}}`)
			look()
			driver, err := s.user.Management.NodeDriver().Get("theirs", metav1.GetOptions{})
			must(s.T, err)
			if driver.Status.AppliedURL != driver.Spec.URL || !conditions.IsTrue(driver.Status.Conditions,
				mgmtv3.NodeDriverConditionInstalled) || len(s.kinds("sim")) != 3 {
				s.Errorf("status is %+v, kinds are %v", driver.Status, s.kinds("sim"))
			}
			config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": clients.MachineConfigGroup +
				"/v1", "kind": "SimConfig", "token": "t"}}
			config.SetName("nc")
			_, err = s.configs.Create(s.Context(), config, metav1.CreateOptions{})
			must(s.T, err)
			s.edit("theirs", `{"spec":{"active":false}}`)
			if kept := s.kinds("sim"); len(kept) != 3 {
				s.Errorf("kinds are %v while there is a machine config", kept)
			}
			must(s.T, s.configs.Delete(s.Context(), "nc", metav1.DeleteOptions{}))
			s.elapse(3 * time.Minute)
			look()
			s.edit("theirs", `{"spec":{"active":true}}`)
			look()
			must(s.T, s.user.Management.NodeDriver().Delete("theirs", nil))
			s.elapse(3 * time.Minute)
			look()
			if left := s.kinds("sim"); len(left) > 0 {
				s.Errorf("kinds of a deleted driver: %v", left)
			}
		})
		if want == nil {
			want = got
		}
		for i := range got {
			if diff := cmp.Diff(want[i], got[i]); diff != "" {
				t.Errorf("killed after write %d, after part %d the objects differ (-never killed +killed):\n%s", n, i+1,
					diff)
			}
		}
		return writes
	})
}
