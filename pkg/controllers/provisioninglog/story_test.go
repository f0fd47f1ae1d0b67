package provisioninglog_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/provisioninglog"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/lags"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance  = "instance-1"
	id        = "c-m-12345678"
	agent     = "drover/test"
	namespace = "fleet-default"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	stop func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

// tell runs a test in virtual time, with Cluster demo of this instance.
func tell(t *testing.T, prepare func(*memkube.Server), f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, api: memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions,
			Namespaces: []string{namespace, id}, Permit: rights.Permit(t, agent)})}
		demo := build.Cluster("demo", build.Pool("all", "ecw", 1))
		demo.Annotations = map[string]string{rkev1.InstanceAnnotation: instance}
		demo.Status.ClusterName = id
		must(t, w.api.Add(demo))
		prepare(w.api)
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() {
			w.stop()
			w.user.Stop()
		}()
		f(w)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	must(w.T, provisioninglog.Register(c.HandlerContext(), provisioninglog.Deps{Clusters: c.Provisioning.Cluster(),
		ConfigMaps: c.Core.ConfigMap(), InstanceID: instance}))
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

// pass lets time pass. If the controller was killed meanwhile, pass restarts it and lets the time pass again.
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

// show sets the conditions of the Cluster.
func (w *world) show(ready bool, provisioned, message string) {
	w.Helper()
	found, err := w.user.Provisioning.Cluster().Get(namespace, "demo", metav1.GetOptions{})
	must(w.T, err)
	found.Status = status(ready, provisioned, message, "")
	_, err = w.user.Provisioning.Cluster().UpdateStatus(found)
	must(w.T, err)
}

var stamps = regexp.MustCompile(`(?m)^\S+ `)

// log returns the log without the times.
func (w *world) log() string {
	w.Helper()
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: id, Name: "provisioning-log"}}
	_, err := w.api.Get(found)
	must(w.T, err)
	return stamps.ReplaceAllString(found.Data["log"], "")
}

const wholeStory = `[INFO ] waiting for viable init node
[ERROR] creating machine m1 failed
[INFO ] waiting for probes
[INFO ] provisioning done
`

// life shows what a Cluster shows on its way.
func (w *world) life(step time.Duration) {
	w.Helper()
	w.show(false, "Unknown", "waiting for viable init node")
	w.pass(step)
	w.show(false, "False", "creating machine m1 failed")
	w.pass(step)
	w.show(false, "Unknown", "waiting for probes")
	w.pass(step)
	w.show(true, "True", "")
	w.pass(5 * time.Second)
}

func unprepared(*memkube.Server) {}

func TestStory_LogHasEachMessageOnce(t *testing.T) {
	tell(t, unprepared, func(w *world) {
		w.life(2 * time.Second)
		if diff := cmp.Diff(wholeStory, w.log()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if writes := w.api.Writes(agent); len(writes) != 4 {
			t.Errorf("writes: %v", writes)
		}
		w.api.ResetLog()
		w.pass(time.Hour)
		w.stop()
		w.start()
		w.pass(time.Hour)
		if writes := w.api.Writes(agent); len(writes) > 0 {
			t.Errorf("writes to a settled cluster: %v", writes)
		}
	})
}

func TestStory_FastMessagesCostOneWriteInEachSecond(t *testing.T) {
	tell(t, unprepared, func(w *world) {
		for i := range 40 {
			w.show(false, "Unknown", "waiting for machine "+strings.Repeat("i", i+1))
			w.pass(100 * time.Millisecond)
		}
		w.pass(2 * time.Second)
		if writes := len(w.api.Writes(agent)); writes < 4 || writes > 6 {
			t.Errorf("%d writes in four seconds", writes)
		}
		if want := "[INFO ] waiting for machine " + strings.Repeat("i", 40) + "\n"; !strings.HasSuffix(w.log(), want) {
			t.Errorf("the last message is missing: %s", w.log())
		}
	})
}

func TestStory_OthersClustersGetNoLog(t *testing.T) {
	for name, change := range map[string]func(*provv1.Cluster){
		"another instance":    func(c *provv1.Cluster) { c.Annotations[rkev1.InstanceAnnotation] = "other" },
		"an imported cluster": func(c *provv1.Cluster) { c.Spec = provv1.ClusterSpec{} },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, unprepared, func(w *world) {
				found, err := w.user.Provisioning.Cluster().Get(namespace, "demo", metav1.GetOptions{})
				must(t, err)
				change(found)
				_, err = w.user.Provisioning.Cluster().Update(found)
				must(t, err)
				w.life(2 * time.Second)
				if writes := w.api.Writes(agent); len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}

// A log that a user deletes begins again with the next message.
func TestStory_DeletedLogBeginsAgain(t *testing.T) {
	tell(t, unprepared, func(w *world) {
		w.life(2 * time.Second)
		must(t, w.user.Core.ConfigMap().Delete(id, "provisioning-log", nil))
		w.pass(15 * time.Second)
		if got := w.log(); got != "" {
			t.Errorf("log %q", got)
		}
		w.show(true, "Unknown", "waiting for probes")
		w.pass(15 * time.Second)
		if got := w.log(); got != "[INFO ] waiting for probes\n" {
			t.Errorf("log %q", got)
		}
	})
}

func TestStory_LogIsTheSameWhereverTheProcessIsKilled(t *testing.T) {
	crashpoints.Each(t, 4, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, unprepared, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.life(2 * time.Second)
			writes = w.api.Written(agent)
			w.pass(time.Minute)
			if diff := cmp.Diff(wholeStory, w.log()); diff != "" {
				t.Errorf("killed after write %d, log (-want +got):\n%s", n, diff)
			}
		})
		return writes
	})
}

func TestStory_WatchesThatLagRepeatNoLine(t *testing.T) {
	lags.Each(t, agent, 4, func(t *testing.T, prepare func(*memkube.Server)) (api *memkube.Server) {
		t.Helper()
		tell(t, prepare, func(w *world) {
			w.life(6 * time.Second)
			if diff := cmp.Diff(wholeStory, w.log()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			api = w.api
		})
		return api
	})
}
