package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// snapshotLists is where a cluster lists its snapshots.
const snapshotLists = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"

// TestUISnapshot takes a snapshot on the page, and the list shows it. The page says why a second one fails. Then the
// configuration changes. A restore of the snapshot with its configuration says what goes back, needs the name of the
// cluster, and brings the cluster back to Ready with the former configuration.
func TestUISnapshot(t *testing.T) {
	files := &snapshotFiles{namespace: plane.Namespace(t), cluster: "demo", taken: map[string]bool{}}
	st := stage.Start(t, stage.Settings{UI: true, Machines: func(o *fakeagent.Options) {
		o.Faults, o.API = files, withSnapshotLists
	}})
	files.stage.Store(st)
	st.Cluster(files.namespace, files.cluster, stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(files.namespace, files.cluster) })
	env := map[string]string{"URL": st.URL, "TOKEN": administrator(t, files.namespace), "NAMESPACE": files.namespace}
	browse(t, "snapshot", env, steps{
		"configure": func() string {
			st.Edit(files.namespace, files.cluster, func(c *provv1.Cluster) {
				c.Spec.RKEConfig.AdditionalManifest = "# after the snapshot\n"
			})
			plane.Until(t, clusterTime, func() string { return st.WaitingFor(files.namespace, files.cluster) })
			return ""
		},
		"break snapshots": func() string { files.isBroken.Store(true); return "" },
		"mend snapshots":  func() string { files.isBroken.Store(false); return "" },
		"request":         func() string { return requestOf(t, st, files) },
	})
	if files.problem() != nil {
		t.Error(files.problem())
	}
}

// requestOf returns the requested restore, and what the spec has of the configuration.
func requestOf(t *testing.T, st *stage.Stage, files *snapshotFiles) string {
	t.Helper()
	cluster := &provv1.Cluster{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: files.namespace, Name: files.cluster}, cluster))
	restore := cluster.Spec.RKEConfig.ETCDSnapshotRestore
	if restore == nil {
		return "none"
	}
	return fmt.Sprintf("%d %s %q", restore.Generation, restore.RestoreRKEConfig,
		cluster.Spec.RKEConfig.AdditionalManifest)
}

// withSnapshotLists makes the API of a cluster that lists its snapshots.
func withSnapshotLists() http.Handler {
	preserve := true
	return memkube.New(memkube.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "etcdsnapshotfiles.k3s.cattle.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "k3s.cattle.io", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "etcdsnapshotfiles",
				Singular: "etcdsnapshotfile", Kind: "ETCDSnapshotFile", ListKind: "ETCDSnapshotFileList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}}}},
		},
	}}})
}

// snapshotFiles adds a snapshot to the list of a cluster for each instruction that takes one, as the distribution does.
type snapshotFiles struct {
	fakeagent.NoFaults
	namespace, cluster string
	stage              atomic.Pointer[stage.Stage]
	// isBroken lets every snapshot fail.
	isBroken atomic.Bool
	mutex    sync.Mutex
	// taken has the instructions that have run. The name of an instruction differs between requests.
	taken map[string]bool
	err   error
}

// Instruction implements fakeagent.Faults.
func (f *snapshotFiles) Instruction(machine, name string, _ int) error {
	if !strings.Contains(name, "etcd-snapshot/create") {
		return nil
	}
	if f.isBroken.Load() {
		return &fakeagent.ExitError{Code: 1, Output: "no space left on device"}
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.taken[machine+name] {
		return nil
	}
	f.taken[machine+name] = true
	f.err = f.take(machine, fmt.Sprintf("on-demand-%d", len(f.taken)))
	return f.err
}

func (f *snapshotFiles) problem() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// take adds a snapshot to the list. Its metadata have the spec of the Cluster, which the distribution copies from a
// ConfigMap.
func (f *snapshotFiles) take(machine, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st := f.stage.Load()
	plan := &rkev1.RKEControlPlane{}
	if err := st.Client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: f.cluster}, plan); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "k3s.cattle.io/v1", "kind": "ETCDSnapshotFile", "metadata": map[string]any{"name": "local-" + file},
		"spec": map[string]any{
			"snapshotName": file, "nodeName": st.World.Machines(f.namespace)[machine].Node,
			"location": "file:///var/lib/rancher/k3s/server/db/snapshots/" + file,
			"metadata": map[string]any{rkev1.SnapshotClusterSpecKey: plan.Annotations[rkev1.ClusterSpecAnnotation]},
		},
		"status": map[string]any{"size": "4194304", "creationTime": time.Now().UTC().Format(time.RFC3339),
			"readyToUse": true},
	})
	if err != nil {
		return err
	}
	return st.World.Downstream(f.namespace, f.cluster).Discovery().RESTClient().Post().AbsPath(snapshotLists).
		Body(body).Do(ctx).Error()
}
