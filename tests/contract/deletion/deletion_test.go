package deletion

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// credential is the name of the Secret with the cloud credential.
const credential = "cloud"

// timedOut is what Kubernetes says about a Job at its deadline.
const timedOut = "DeadlineExceeded: Job was active longer than specified deadline"

// trouble is one case.
type trouble struct {
	name string
	// servers is the number of machines with etcd, 1 by default.
	servers int32
	// prepare changes the Cluster before its creation. Nil changes nothing.
	prepare func(f *fire, cluster *provv1.Cluster)
	// unready means that begin does not wait until the cluster is ready.
	unready bool
	// begin makes the trouble. The Cluster is deleted after it.
	begin func(f *fire)
	// during happens after the Cluster is deleted. Nil does nothing.
	during func(f *fire)
	// says are words of condition Removed while the deletion is held. Without them, the deletion ends by itself.
	says []string
	// end ends the trouble, or does what the message says. Nil does nothing.
	end func(f *fire)
	// alone means that the trouble concerns other clusters, too.
	alone bool
}

// TestDeletionUnderFire deletes Clusters in trouble. Either a deletion ends, or the Cluster says what holds it and what
// a user can do. It then ends after that. No host is left.
func TestDeletionUnderFire(t *testing.T) {
	faults := &faults{}
	st := stage.Start(t, stage.Settings{Machines: func(o *fakeagent.Options) { o.Faults = faults }})
	fires := make([]*fire, 0, len(troubles))
	for _, trouble := range troubles {
		fires = append(fires, light(t, st, faults, trouble))
	}
	t.Run("together", func(t *testing.T) {
		for _, f := range fires {
			if !f.alone {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					f.on(t).burn()
				})
			}
		}
	})
	for _, f := range fires {
		if f.alone {
			t.Run(f.name, func(t *testing.T) { f.on(t).burn() })
		}
	}
}

var troubles = []trouble{
	{
		name: "job-runs", unready: true,
		prepare: func(f *fire, _ *provv1.Cluster) { f.driverSays(fakeagent.Hangs) },
		begin:   (*fire).awaitJob,
		says:    []string{"starts after the end of the Job that creates it", "at most 60 minutes"},
		end:     func(f *fire) { f.driverSays("") },
	},
	{
		name:  "driver-hangs",
		begin: func(f *fire) { f.driverSays(fakeagent.Hangs) },
		during: func(f *fire) {
			f.awaitJob()
			f.driverSays(timedOut)
		},
		says: []string{"DeadlineExceeded", "Drover tries again", "force-machine-remove=true on SimMachine"},
		end:  (*fire).giveUp,
	},
	{
		name: "credential-gone",
		prepare: func(f *fire, cluster *provv1.Cluster) {
			cluster.Spec.CloudCredentialSecretName = credential
			f.must(f.st.Client.Create(f.Context(), f.credential()))
		},
		begin: func(f *fire) { f.must(f.st.Client.Delete(f.Context(), f.credential())) },
		says:  []string{"the cloud credential of the machine, does not exist", "Create the Secret again"},
		end:   func(f *fire) { f.must(f.st.Client.Create(f.Context(), f.credential())) },
	},
	{
		name: "plan-runs", unready: true,
		prepare: func(f *fire, _ *provv1.Cluster) { f.hang(func(name string) bool { return name == "install" }) },
		begin:   (*fire).awaitHang,
	},
	{name: "api-dead", begin: func(f *fire) {
		f.st.World.Silence(f.namespace, f.machine("server").Name)
		f.deleteMachine("worker") // its drain needs the API
	}},
	{name: "tunnel-down", begin: func(f *fire) {
		plane.Until(f, patience, func() string {
			if !f.st.World.Disconnect(f.namespace, f.name) {
				return "the agent inside the cluster does not run yet"
			}
			return ""
		})
	}},
	{name: "node-off", begin: func(f *fire) {
		f.st.World.Silence(f.namespace, f.machine("worker").Name)
		f.deleteMachine("worker")
	}},
	{name: "quorum-lost", servers: 3, begin: func(f *fire) {
		if !f.st.World.LoseQuorum(f.namespace, f.name) {
			f.Fatal("no server of the cluster runs")
		}
		f.deleteMachine("server") // its etcd member cannot leave
	}},
	{name: "restore-runs", begin: func(f *fire) {
		f.hang(func(name string) bool { return strings.HasPrefix(name, "idempotent-") })
		f.st.Edit(f.namespace, f.name, func(cluster *provv1.Cluster) {
			cluster.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "file", Generation: 1}
		})
		f.awaitHang()
		if core := f.core(); core.Annotations[rkev1.PausedByOperationAnnotation] == "" {
			f.Errorf("the restore has not paused the Cluster API cluster: %v", core.Annotations)
		}
	}},
	{
		name:  "paused",
		begin: func(f *fire) { f.pause(true) },
		says:  []string{"is paused and nothing of it is deleted", "spec.paused"},
		end:   func(f *fire) { f.pause(false) },
	},
	{
		name: "manager-restarts", alone: true,
		begin: func(f *fire) { f.driverSays(fakeagent.Hangs) },
		end: func(f *fire) {
			f.awaitJob()
			f.root.RestartDrover()
			f.driverSays("")
		},
	},
	{name: "driver-gone", alone: true, begin: func(f *fire) {
		f.must(f.st.Client.Delete(f.Context(), &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "sim"}}))
	}},
}
