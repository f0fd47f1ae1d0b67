package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/backup"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/fakecapi"
)

// elsewhere starts another management cluster that runs Cluster API. The hosts connect to it and keep running.
func (w *world) elsewhere(ctx context.Context) {
	w.Helper()
	w.stop()
	w.stopHosts()
	w.user.Stop()
	w.api = newAPI(w.T)
	var err error
	w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user"})
	check(w.T, err)
	w.live, err = dynamic.NewForConfig(w.api.Config("user"))
	check(w.T, err)
	hosts, err := w.hosts.Under(w.api.Config("ignored"), nil)
	check(w.T, err)
	w.hosts = hosts
	core, err := fakecapi.New(fakecapi.Options{API: w.api, Log: w.note,
		Downstream: func(namespace, name string) kubernetes.Interface {
			client, err := w.Client(ctx, types.NamespacedName{Namespace: namespace, Name: name})
			if err != nil {
				return nil
			}
			return client
		}})
	check(w.T, err)
	w.players.Go(func() { core.Run(ctx) })
	w.players.Go(func() { check(w.T, hosts.Run(ctx)) })
}

// saved returns a backup of everything, written and read. Nothing may be in progress.
func (w *world) saved() *backup.Backup {
	w.Helper()
	read := w.savedAsItIs()
	for _, warning := range read.Manifest.Warnings {
		w.Errorf("no work is running, but %s", warning)
	}
	return read
}

// savedAsItIs is like saved, but operations may be in progress.
func (w *world) savedAsItIs() *backup.Backup {
	w.Helper()
	collected, err := backup.Collect(w.Context(), backup.CollectOptions{Client: w.live, Version: "test", Now: time.Now})
	check(w.T, err)
	var file bytes.Buffer
	check(w.T, collected.Write(&file))
	read, err := backup.Read(&file)
	check(w.T, err)
	return read
}

// planTexts returns the plans of machines by the names of their Secrets.
func (w *world) planTexts() map[string]string {
	out := map[string]string{}
	for _, object := range w.api.Objects(corev1.SchemeGroupVersion.WithKind("Secret")) {
		if kind, _, _ := unstructured.NestedString(object.Object, "type"); kind == rkev1.SecretTypeMachinePlan {
			plan, _, _ := unstructured.NestedString(object.Object, "data", nodeplan.KeyPlan)
			out[object.GetName()] = plan
		}
	}
	return out
}

// attempts returns how often each kind of operation was started.
func (w *world) attempts() map[string]int64 {
	w.Helper()
	plane, err := w.user.RKE.RKEControlPlane().Get(fleet, demo, metav1.GetOptions{})
	check(w.T, err)
	out := map[string]int64{"rotation": plane.Status.CertificateRotationGeneration}
	for _, record := range plane.Status.Operations {
		out[record.Name] = record.Attempt
	}
	// A control plane that lost its status would start counting again. The last start time distinguishes the two cases.
	for _, record := range plane.Status.Operations {
		if record.StepStartedAt != nil {
			out[record.Name+" began"] = record.StepStartedAt.Unix()
		}
	}
	return out
}

// adoption returns what adopting the cluster would do.
func (w *world) adoption() inspect.Adoption {
	w.Helper()
	table, err := releases.Load(w.Context(), "", nil)
	check(w.T, err)
	r, err := inspect.New(w.Context(), inspect.Options{Config: w.api.Config("user"), Version: "user", Releases: table},
		fleet)
	check(w.T, err)
	defer r.Close()
	a, err := r.Adoption(w.Context(), demo, "")
	check(w.T, err)
	return a
}

// adopted adopts the cluster, which must not affect its machines.
func (w *world) adopted() {
	w.Helper()
	a := w.adoption()
	if a.Result != planner.ClassNone {
		w.Errorf("adoption would change machines: %s, %+v", a.Result, a.Machines)
	}
	check(w.T, adopt.Take(w.Context(), w.user, a, adopt.Limits{Now: time.Now()}))
}

// Drover only observes a cluster that moves to another management cluster until it is adopted. Then Drover manages it
// as before, although all UIDs differ and some tools drop the status. Finished operations do not run again.
func TestStory_AnotherManagementCluster(t *testing.T) {
	crashpoints.SkipRaced(t)
	cases := map[string]func(*backup.Backup){
		"restored from a backup": func(*backup.Backup) {},
		"moved without status, as clusterctl does": func(b *backup.Backup) {
			for _, object := range b.Objects {
				if object.GetKind() != "CustomResourceDefinition" {
					unstructured.RemoveNestedField(object.Object, "status")
				}
			}
		},
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				w.start()
				w.apply(k3s, w.servers(1, 2))
				w.until("the cluster", 5*time.Minute, w.ready(3))
				w.edit(func(c *provv1.Cluster) {
					c.Spec.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
				})
				time.Sleep(10 * time.Minute)
				w.until("the rotation", 10*time.Minute, w.ready(3))
				plans, installs, attempts := w.planTexts(), w.installs(), w.attempts()
				if attempts["rotate-certificates"] != 1 {
					t.Fatalf("the operations ran %v times", attempts)
				}

				saved := w.saved()
				lose(saved)
				w.elsewhere(ctx)
				w.restoredUntouched(ctx, saved)
				w.adopted()
				w.until("the cluster", 10*time.Minute, w.ready(3))
				time.Sleep(10 * time.Minute)
				if diff := cmp.Diff(plans, w.planTexts()); diff != "" {
					t.Errorf("plans have changed:\n%s", diff)
				}
				if diff := cmp.Diff(installs, w.installs()); diff != "" {
					t.Errorf("machines were restarted, created or removed (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(attempts, w.attempts()); diff != "" {
					t.Errorf("an operation ran again:\n%s", diff)
				}
				w.quiet(time.Hour)
				w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 3 })
				w.until("another worker", 10*time.Minute, w.ready(4))
				w.removed()
				if left := w.hosts.Machines(fleet); len(left) > 0 {
					t.Errorf("machines remain in the cloud: %v", left)
				}
			})
		})
	}
}

// The backup contains a plan in progress that would restart a machine. After the restore Drover sends it only when the
// adoption has announced it and has permission.
func TestStory_ABackupWithAPlanUnderWayAsksBeforeItGoesOn(t *testing.T) {
	tell(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 5*time.Minute, w.ready(2))
		time.Sleep(time.Minute)
		plans, installs := w.planTexts(), w.installs()
		w.stopHosts()
		w.edit(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.3+k3s1" })
		time.Sleep(2 * time.Minute)
		if cmp.Equal(plans, w.planTexts()) {
			t.Fatal("no plan is pending")
		}
		saved := w.savedAsItIs()
		if len(saved.Manifest.Warnings) == 0 {
			t.Error("the backup has no warning about the pending plan")
		}
		w.elsewhere(ctx)
		_, err := backup.Restore(ctx, saved, backup.RestoreOptions{Client: w.live})
		check(t, err)
		w.start()
		untouched := func(when string) {
			t.Helper()
			time.Sleep(time.Hour)
			if diff := cmp.Diff(plans, w.planTexts()); diff != "" {
				t.Errorf("plans differ from those that were applied, %s:\n%s", when, diff)
			}
			if diff := cmp.Diff(installs, w.installs()); diff != "" {
				t.Errorf("machines were restarted %s (-before +after):\n%s", when, diff)
			}
		}
		untouched("after the restore")
		asked := w.adoption()
		if asked.Result != planner.ClassRestart {
			t.Errorf("the result of the adoption is %s: %+v", asked.Result, asked.Machines)
		}
		var refusal *adopt.Refusal
		if err := adopt.Take(ctx, w.user, asked, adopt.Limits{Now: time.Now()}); !errors.As(err, &refusal) ||
			!strings.Contains(err.Error(), "restart") {
			t.Errorf("adoption without permission for restarts: %v", err)
		}
		untouched("after the refusal")
		check(t, adopt.Take(ctx, w.user, w.adoption(), adopt.Limits{AllowRestart: true, Now: time.Now()}))
		w.until("the upgrade", 20*time.Minute, func() string {
			for name, n := range w.installs() {
				if n != installs[name]+1 {
					return fmt.Sprintf("%s was installed %d times", name, n)
				}
			}
			return w.ready(2)()
		})
		w.removed()
	})
}

// restoredUntouched restores a backup of one cluster and starts Drover. Drover must write nothing before the adoption.
func (w *world) restoredUntouched(ctx context.Context, saved *backup.Backup) {
	w.Helper()
	result, err := backup.Restore(ctx, saved, backup.RestoreOptions{Client: w.live})
	check(w.T, err)
	if diff := cmp.Diff([]string{fleet + "/" + demo}, result.Clusters); diff != "" {
		w.Error(diff)
	}
	w.start()
	time.Sleep(time.Minute)
	w.api.ResetLog()
	time.Sleep(time.Hour)
	synctest.Wait()
	for _, write := range w.api.Writes(ours) {
		w.Errorf("a cluster before its adoption causes writes: %v", write)
	}
}
