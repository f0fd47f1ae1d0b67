package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/operate/diagnose"
)

// Diagnose finds the first broken links of a cluster. A forbidden read is a note in the report, not an error.
func (r *Reader) Diagnose(ctx context.Context, name string) (diagnose.Report, error) {
	w, err := r.World(ctx, name)
	if err != nil {
		return diagnose.Report{}, err
	}
	return diagnose.Diagnose(w), nil
}

// gatherer reads a World.
type gatherer struct {
	*Reader
	ctx context.Context // valid for one call
	w   diagnose.World
	// served are the served kinds, by group and version.
	served map[string]map[string]bool
	// known is the planner's knowledge about machines.
	known []planner.Machine
}

// World reads everything that the diagnosis of a cluster needs.
func (r *Reader) World(ctx context.Context, name string) (diagnose.World, error) {
	g := &gatherer{Reader: r, ctx: ctx, served: map[string]map[string]bool{}, w: diagnose.World{
		Namespace: r.namespace, Name: name, Unread: map[string]string{}, Secrets: &redact.Secrets{},
	}}
	g.definitions()
	for _, read := range []func() error{g.plane, g.cluster} {
		if err := read(); err != nil {
			return g.w, err
		}
	}
	if g.w.Cluster != nil {
		for _, read := range []func() error{g.children, g.decision, g.credentials, g.drivers, g.machines, g.events} {
			if err := read(); err != nil {
				return g.w, err
			}
		}
	}
	g.w.Now = r.serverNow()
	return g.w, nil
}

// serverNow returns the API server's time if it is known, because the user's clock may be wrong.
func (r *Reader) serverNow() time.Time { return r.clock.now(r.now()) }

func (r *Reader) now() time.Time {
	if r.opts.Now != nil {
		return r.opts.Now()
	}
	return time.Now()
}

// may handles the error of a read. It ignores NotFound, records a forbidden read under the name of the kind, and
// returns every other error.
func (g *gatherer) may(kind string, err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		g.w.Unread[kind] = "forbidden: " + err.Error()
		return nil
	}
	return fmt.Errorf("read %s: %w", kind, err)
}

// needed are the kinds that every cluster needs.
var needed = map[string][]string{
	"provisioning.cattle.io/v1": {"Cluster"},
	"rke.cattle.io/v1": {"RKECluster", "RKEControlPlane", "RKEBootstrap", "RKEBootstrapTemplate",
		"ETCDSnapshot", "CustomMachine"},
	"management.cattle.io/v3": {"Cluster", "NodeDriver", "DynamicSchema", "ClusterRegistrationToken",
		"FleetWorkspace", "PodSecurityAdmissionConfigurationTemplate"},
	clusterv1.GroupVersion.String(): {"Cluster", "Machine", "MachineDeployment", "MachineSet", "MachineHealthCheck"},
}

func (g *gatherer) definitions() {
	for groupVersion, kinds := range needed {
		served, err := g.kinds(groupVersion)
		if err != nil {
			g.w.Unread["definitions"] = err.Error()
			continue
		}
		for _, kind := range kinds {
			if !served[kind] {
				g.w.MissingKinds = append(g.w.MissingKinds, kind+" of "+groupVersion)
			}
		}
	}
	slices.Sort(g.w.MissingKinds)
}

// kinds returns the kinds of a group version. It returns none if the group version is not served.
func (g *gatherer) kinds(groupVersion string) (map[string]bool, error) {
	if known, ok := g.served[groupVersion]; ok {
		return known, nil
	}
	list, err := g.clients.Kubernetes.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ask which kinds %s has: %w", groupVersion, err)
	}
	out := map[string]bool{}
	if list != nil {
		for i := range list.APIResources {
			if !strings.Contains(list.APIResources[i].Name, "/") {
				out[list.APIResources[i].Kind] = true
			}
		}
	}
	g.served[groupVersion] = out
	return out, nil
}

// leads returns the instance that holds the lease. It is usually the cluster's instance, or an instance that has
// published its settings.
func leads(w *diagnose.World) string {
	if w.Cluster == nil || w.Lease == nil || w.Lease.Spec.HolderIdentity == nil {
		return ""
	}
	digest := rival.InstanceOf(*w.Lease.Spec.HolderIdentity)
	if digest == "" {
		return ""
	}
	for _, known := range append(slices.Clone(w.Instances), w.Cluster.Annotations[rkev1.InstanceAnnotation]) {
		if rival.Digest(known) == digest {
			return known
		}
	}
	return "an instance with the digest " + digest
}

// plane reads what all clusters share.
func (g *gatherer) plane() error {
	lease, err := g.clients.Kubernetes.CoordinationV1().Leases(rival.DroverNamespace).Get(g.ctx, rival.DroverLease,
		metav1.GetOptions{})
	if err == nil {
		g.w.Lease = lease
	}
	if err := g.may("leases", err); err != nil {
		return err
	}
	published, err := g.clients.Core.ConfigMap().List(controllers.SettingsNamespace,
		metav1.ListOptions{LabelSelector: controllers.SettingsLabel + "=true"})
	if err == nil {
		for i := range published.Items {
			if instance := published.Items[i].Annotations[rkev1.InstanceAnnotation]; instance != "" {
				g.w.Instances = append(g.w.Instances, instance)
			}
		}
	}
	if err := g.may("settings", err); err != nil {
		return err
	}
	return g.webhooks()
}

func (g *gatherer) cluster() error {
	if served, err := g.kinds(provv1.SchemeGroupVersion.String()); err == nil && !served["Cluster"] {
		return nil
	}
	cluster, err := g.Cluster(g.w.Name)
	g.w.Cluster = cluster
	g.w.Leads = leads(&g.w)
	return err
}

// children reads the objects derived from the Cluster, except machines.
func (g *gatherer) children() error {
	w, namespace, name := &g.w, g.namespace, g.w.Name
	var kubeconfig, agent *corev1.Secret
	for _, err := range []error{
		one(g, "management clusters", &w.Management, func() (*mgmtv3.Cluster, error) {
			if w.Cluster.Status.ClusterName == "" {
				return nil, nil
			}
			return g.plans.ManagementClusters.Cache().Get(w.Cluster.Status.ClusterName)
		}),
		one(g, "clusters.cluster.x-k8s.io", &w.Core, func() (*clusterv1.Cluster, error) {
			return g.plans.Clusters.Cache().Get(namespace, name)
		}),
		one(g, "rkeclusters", &w.Infrastructure, func() (*rkev1.RKECluster, error) {
			return g.clients.RKE.RKECluster().Get(namespace, name, metav1.GetOptions{})
		}),
		one(g, "rkecontrolplanes", &w.ControlPlane, func() (*rkev1.RKEControlPlane, error) {
			return g.plans.ControlPlanes.Cache().Get(namespace, name)
		}),
		one(g, "secrets", &kubeconfig, func() (*corev1.Secret, error) {
			return g.plans.Secrets.Cache().Get(namespace, naming.Kubeconfig(name))
		}),
		one(g, "secrets", &agent, func() (*corev1.Secret, error) {
			return g.plans.Secrets.Cache().Get(namespace, naming.ClusterAgent(name))
		}),
	} {
		if err != nil {
			return err
		}
	}
	w.Kubeconfig, w.ReachedByAgent = kubeconfig != nil, agent != nil && topology.Belongs(agent, w.Cluster) &&
		agent.Annotations[rkev1.ReachedByAgentAnnotation] == "true"
	return g.poolObjects()
}

func (g *gatherer) poolObjects() error {
	of := labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: g.w.Name})
	deployments, err := g.topology.MachineDeployments.Cache().List(g.namespace, of)
	if err := g.may("machinedeployments", err); err != nil {
		return err
	}
	g.w.Deployments = deployments
	sets, err := g.clients.CAPI.MachineSet().List(g.namespace, metav1.ListOptions{LabelSelector: of.String()})
	if err == nil {
		for i := range sets.Items {
			g.w.Sets = append(g.w.Sets, &sets.Items[i])
		}
	}
	return g.may("machinesets", err)
}

// decision asks the planner. It leaves the decision empty if the planner's input cannot be read.
func (g *gatherer) decision() error {
	if g.w.ControlPlane == nil {
		return nil
	}
	if unknown := g.learn(g.w.Cluster); unknown != "" && g.w.Unread["settings"] == "" {
		g.w.Unread["settings of the server"] = unknown
	}
	snapshot, err := g.planner.Snapshot(g.w.ControlPlane)
	if err != nil {
		return g.may("plans", err)
	}
	explanation := planner.Explain(snapshot)
	g.w.Decision, g.w.Secrets = &explanation, planner.SecretsOf(&snapshot)
	g.known = snapshot.Machines
	return nil
}

// one reads an object. It stays nil if it does not exist or the user may not read it.
func one[T any](g *gatherer, kind string, into **T, get func() (*T, error)) error {
	object, err := get()
	if err == nil {
		*into = object
	}
	return g.may(kind, err)
}
