package helmlifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// next is the version that the test upgrades to.
const next = "99.0.0"

// alone are values for one replica with other ports. The old replica ends before the new one starts. The Services keep
// their addresses.
var alone = []string{
	"--set", "replicaCount=1", "--set", "updateStrategy.type=Recreate", "--set", "updateStrategy.rollingUpdate=null",
	"--set", "server.port=9001", "--set", "server.healthPort=9002", "--set", "admission.port=9003",
}

func TestMain(m *testing.M) {
	code, err := main(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "helmlifecycle:", err)
		code = 1
	}
	os.Exit(code)
}

// images are the images before and after the upgrade. A program that wrote its version into plans would change them.
var images struct{ Present, Newer drover }

// main builds the images, which may need the machine's network, and then runs the tests in another network.
func main(ctx context.Context, m *testing.M) (code int, err error) {
	if carried, ok := os.LookupEnv(moved); ok {
		if err := arrive(carried, &images); err != nil {
			return 0, err
		}
		return run(m), nil
	}
	if images.Present, err = assemble(ctx, "present", ""); err != nil {
		return 0, fmt.Errorf("assemble the image: %w", err)
	}
	if images.Newer, err = assemble(ctx, "next", "v"+next); err != nil {
		return 0, fmt.Errorf("assemble the image of the upgrade: %w", err)
	}
	return move(ctx, images)
}

func run(m *testing.M) int {
	// The client logs warnings of the API server about kinds that this test did not choose.
	ctrllog.SetLogger(logr.Discard())
	return stage.Main(m, func(opts *plane.Options) {
		opts.Components = append(opts.Components, managementplane.Scheduler, managementplane.ProcessKubelet)
		opts.Controllers = append(opts.Controllers, "deployment-controller", "replicaset-controller",
			"node-lifecycle-controller", "endpointslice-controller", "disruption-controller")
		opts.Images = []managementplane.Image{{Match: "*/drover:v" + next, Layout: images.Newer.Layout},
			{Match: "*/drover:*", Layout: images.Present.Layout}}
		opts.Networks, opts.BindAddress = podNetworks(), lab.Gateway.String()
	})
}

// TestHelmLifecycle installs Drover with the chart's defaults, creates clusters, upgrades, loses the leader, uninstalls
// and installs again. No plan changes, no client notices, and nothing is lost.
func TestHelmLifecycle(t *testing.T) {
	in, empty := newInstallation(t), everything(t)
	st := stage.Start(t, stage.Settings{Drover: func(*testing.T) { in.install() }})
	leader := in.awaitReplicas(2)
	t.Logf("pod %s leads", leader.Name)
	namespace := plane.Namespace(t)
	plane.Until(t, 30*time.Second, func() string { // the API server needs a moment until it calls the webhooks
		return text(expectRefusal(st.Client.Create(t.Context(), badCluster(namespace), client.DryRunAll)))
	})
	clusters := st.Apply(namespace, 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	stage.AwaitQuiet(t, time.Minute)
	made := recordOf(t, st, namespace)
	if len(made.Plans) != 6 {
		t.Fatalf("6 machines have %d plans", len(made.Plans))
	}
	expect := func(moment string) {
		t.Helper()
		if diff := cmp.Diff(made, recordOf(t, st, namespace)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", moment, diff)
		}
	}

	clients := newTraffic(t, st, namespace)
	clients.and("replicas", in.expectReplicas(2)).during("upgrade", func() { in.upgrade(next); in.awaitReplicas(2) })
	expectImage(t, st, "v"+next, images.Newer)
	stage.AwaitQuiet(t, time.Minute)
	expect("after the upgrade")
	in.expectNoDisruption()

	clients.during("eviction of the leader", in.evictLeader)
	stage.AwaitQuiet(t, time.Minute)
	expect("after another replica leads")
	scale := func(workers int32) {
		t.Helper()
		st.Edit(namespace, "k3s", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = &workers })
		st.AwaitMachines(namespace, 4+int(workers))
		stage.AwaitQuiet(t, time.Minute)
	}
	scale(1)
	in.expectNoDisruption()
	made = recordOf(t, st, namespace)

	in.uninstall()
	expectOnlyClusters(t, empty, append(st.ManagementNames(namespace), namespace))
	expect("after Drover was uninstalled")
	in.values = append(in.values, alone...)
	in.install()
	in.awaitReplicas(1)
	stage.AwaitQuiet(t, time.Minute)
	expect("after Drover was installed again")
	in.expectNoDisruption()
	scale(2) // Drover manages the existing cluster
	clusters.Delete()
}

// text returns the text of an error, or "" for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// record is what must not change without a user's edit.
type record struct {
	// Plans are the plans of machines by the names of their Secrets. They are checksums, because plans contain secrets.
	Plans map[string]string
	// Machines are the UIDs of Machines by name.
	Machines map[string]types.UID
	// Objects are all objects of the namespace.
	Objects []string
}

func recordOf(t *testing.T, st *stage.Stage, namespace string) record {
	t.Helper()
	out := record{Plans: map[string]string{}, Machines: map[string]types.UID{}}
	secrets := &corev1.SecretList{}
	check(t, st.Client.List(t.Context(), secrets, client.InNamespace(namespace)))
	for i := range secrets.Items {
		if secret := &secrets.Items[i]; secret.Type == rkev1.SecretTypeMachinePlan {
			sum := sha256.Sum256(secret.Data[nodeplan.KeyPlan])
			out.Plans[secret.Name] = hex.EncodeToString(sum[:])
		}
	}
	machines := &clusterv1.MachineList{}
	check(t, st.Client.List(t.Context(), machines, client.InNamespace(namespace)))
	for i := range machines.Items {
		out.Machines[machines.Items[i].Name] = machines.Items[i].UID
	}
	// Jobs are removed some time after they have ended.
	out.Objects = slices.DeleteFunc(st.Inventory(namespace), func(object string) bool {
		return len(object) > 4 && object[:4] == "Job "
	})
	return out
}
