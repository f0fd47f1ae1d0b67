package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// world is the content of caches, and the resulting metrics.
type world struct {
	*testing.T
	registry  *prometheus.Registry
	fleet     *Fleet
	now       time.Time
	clusters  []*provv1.Cluster
	planes    []*rkev1.RKEControlPlane
	cores     []*clusterv1.Cluster
	machines  []*clusterv1.Machine
	snapshots []*rkev1.ETCDSnapshot
	secrets   map[string]*corev1.Secret
	// annotations are those of the objects that machines refer to, by kind and name.
	annotations map[string]map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, registry: prometheus.NewRegistry(), now: noon, secrets: map[string]*corev1.Secret{}}
	var err error
	if w.fleet, err = NewFleet(w.registry, func() time.Time { return w.now }); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) lead() (stop func()) {
	return w.fleet.Lead(Source{
		InstanceID: "me", AgentVersion: "v2",
		Clusters:      func() ([]*provv1.Cluster, error) { return w.clusters, nil },
		ControlPlanes: func() ([]*rkev1.RKEControlPlane, error) { return w.planes, nil },
		CAPIClusters:  func() ([]*clusterv1.Cluster, error) { return w.cores, nil },
		Machines:      func() ([]*clusterv1.Machine, error) { return w.machines, nil },
		Snapshots:     func() ([]*rkev1.ETCDSnapshot, error) { return w.snapshots, nil },
		Cluster: func(namespace, name string) *provv1.Cluster {
			for _, cluster := range w.clusters {
				if cluster.Namespace == namespace && cluster.Name == name {
					return cluster
				}
			}
			return nil
		},
		Secret: func(namespace, name string) *corev1.Secret { return w.secrets[namespace+"/"+name] },
		Annotations: func(_ string, of clusterv1.ContractVersionedObjectReference) map[string]string {
			return w.annotations[of.Kind+" "+of.Name]
		},
	})
}

// add adds a cluster that was ready an hour ago, with its machines.
func (w *world) add(name string, machines ...string) (*provv1.Cluster, *rkev1.RKEControlPlane) {
	cluster, plane := build.Cluster(name), build.ControlPlane(name)
	cluster.Annotations = map[string]string{rkev1.InstanceAnnotation: "me"}
	cluster.CreationTimestamp = metav1.NewTime(w.now.Add(-2 * time.Hour))
	plane.CreationTimestamp = cluster.CreationTimestamp
	plane.Status.AppliedSpec = plane.Spec.DeepCopy()
	conditions.Set(&plane.Status.Conditions,
		conditions.Condition{Type: rkev1.ConditionReady, Status: rkev1.ConditionTrue}, w.now.Add(-time.Hour))
	w.clusters, w.planes = append(w.clusters, cluster), append(w.planes, plane)
	for _, machine := range machines {
		w.machine(name, machine)
	}
	return cluster, plane
}

func (w *world) machine(cluster, name string) *clusterv1.Machine {
	machine := build.Machine(cluster, name, "ecw", build.WithNode(name))
	machine.CreationTimestamp = metav1.NewTime(w.now.Add(-2 * time.Hour))
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{Type: "InfrastructureReady", Status: "True"}, 1,
		w.now.Add(-time.Hour))
	w.machines = append(w.machines, machine)
	w.keep(build.PlanSecret(machine, "plan", "{}", "appliedPlan", "{}"))
	return machine
}

func (w *world) keep(secret *corev1.Secret) { w.secrets[secret.Namespace+"/"+secret.Name] = secret }

// read returns all values: for histograms the number of observations and, under "/sum", their sum.
func (w *world) read() map[string]float64 {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := []string{}
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			key := strings.Join(append([]string{strings.TrimPrefix(family.GetName(), "drover_")}, labels...), " ")
			switch {
			case metric.GetHistogram() != nil:
				out[key], out[key+"/sum"] = float64(metric.GetHistogram().GetSampleCount()),
					metric.GetHistogram().GetSampleSum()
			case metric.GetCounter() != nil:
				out[key] = metric.GetCounter().GetValue()
			default:
				out[key] = metric.GetGauge().GetValue()
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, value float64) bool { return value == 0 })
	return out
}

// constants returns the named string constants of source files.
func constants(t *testing.T, patterns ...string) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range slices.DeleteFunc(paths, func(path string) bool {
			return strings.HasSuffix(path, "_test.go")
		}) {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			out[path] = map[string]string{}
			ast.Inspect(file, func(node ast.Node) bool {
				if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
					if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
						out[path][spec.Names[0].Name], _ = strconv.Unquote(literal.Value)
					}
				}
				return true
			})
		}
	}
	return out
}
