package inspect

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/controllers/planner"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/rehearsal"
	"github.com/drover-io/drover/pkg/releases"
)

// Options configure a Reader.
type Options struct {
	// Config reaches the management cluster with the permissions of the user.
	Config *rest.Config
	// Version of the program, for the user agent.
	Version string
	// Override changes the settings that the server has published. nil changes nothing. With other settings, plans
	// differ from the plans on the nodes.
	Override func(*controllers.Settings)
	// Releases describes Kubernetes versions, like the server's table.
	Releases releases.Table
	// Now defaults to the clock.
	Now func() time.Time
}

// Reader inspects the clusters of one namespace. It remembers what it has read, so every inspection needs a new Reader.
// It is not safe for concurrent use.
type Reader struct {
	opts      Options
	namespace string
	clients   *clients.Clients
	plans     planner.Deps
	topology  provisioningcluster.Deps
	planner   *planner.Reader
	desired   *provisioningcluster.Reader
	settings  controllers.Settings
	live      dynamic.Interface
	clock     *clock
	stage     *rehearsal.Stage
	// resources are the resources of kinds that are looked up by group and kind.
	resources map[schema.GroupKind]schema.GroupVersionResource
}

// New returns a Reader. It makes no API call. Close releases it.
func New(ctx context.Context, opts Options, namespace string) (*Reader, error) {
	config := rest.CopyConfig(opts.Config)
	seen := &clock{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{seen.watch(next)} })
	c, err := clients.New(config, clients.Options{Version: opts.Version, WithoutDynamic: true})
	if err != nil {
		return nil, err
	}
	live, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make clients: %w", err)
	}
	s := rehearsal.New(ctx, rehearsal.Options{
		Live: live, Discovery: c.Kubernetes.Discovery(), Scheme: c.Scheme, Namespace: namespace,
	})
	clusters, controlPlanes := rehearsal.Kind(s, c.Provisioning.Cluster()), rehearsal.Kind(s, c.RKE.RKEControlPlane())
	capiClusters, machines, secrets := rehearsal.Kind(s, c.CAPI.Cluster()), rehearsal.Kind(s, c.CAPI.Machine()),
		rehearsal.Kind(s, c.Core.Secret())
	r := &Reader{opts: opts, namespace: namespace, clients: c, live: live, clock: seen, stage: s,
		resources: map[schema.GroupKind]schema.GroupVersionResource{}}
	r.plans = planner.Deps{
		ProvisioningClusters: clusters, ControlPlanes: controlPlanes, Clusters: capiClusters, Machines: machines,
		Secrets:    secrets,
		Bootstraps: rehearsal.Kind(s, c.RKE.RKEBootstrap()), ConfigMaps: rehearsal.Kind(s, c.Core.ConfigMap()),
		Snapshots:          rehearsal.Kind(s, c.RKE.ETCDSnapshot()),
		ManagementClusters: rehearsal.Global(s, c.Management.Cluster()),
		Release:            opts.Releases.Release, Settings: func() render.Settings {
			return r.settings.Render()
		}, Now: opts.Now,
		ClusterAgents: func() bool { return r.settings.ClusterAgentImage != "" },
		AgentProblem:  r.agentProblem,
	}
	r.topology = provisioningcluster.Deps{
		Clusters: clusters, ManagementClusters: r.plans.ManagementClusters, CAPIClusters: capiClusters,
		Machines: machines, ControlPlanes: controlPlanes, Secrets: secrets,
		MachineDeployments: rehearsal.Kind(s, c.CAPI.MachineDeployment()),
		DynamicSchemas:     rehearsal.Global(s, c.Management.DynamicSchema()),
		Snapshots:          r.plans.Snapshots,
		PodSecurityTemplates: rehearsal.Global(s,
			c.Management.PodSecurityAdmissionConfigurationTemplate()),
		DynamicKinds: machineConfigs{Dynamic: s.Dynamic()},
	}
	r.topology.Serves = r.serves
	r.planner, r.desired = planner.NewReader(r.plans), provisioningcluster.NewReader(r.topology)
	return r, nil
}

// agentProblem returns the problem that the server would find with the cluster agent.
func (r *Reader) agentProblem(cluster *mgmtv3.Cluster) string {
	if r.settings.ClusterAgentImage == "" {
		return ""
	}
	return clustermanifest.Problem(r.settings.AgentSource(r.settings.ClusterAgentImage), cluster)
}

// Close releases the clients.
func (r *Reader) Close() { r.clients.Stop() }

// Cluster returns a cluster of the namespace.
func (r *Reader) Cluster(name string) (*provv1.Cluster, error) {
	cluster, err := r.plans.ProvisioningClusters.Cache().Get(r.namespace, name)
	if err != nil {
		_, err = UnreadCluster(err, r.namespace, name)
		return nil, err
	}
	return cluster, nil
}

// Names lists the clusters of the namespace.
func (r *Reader) Names() ([]string, error) {
	list, err := r.clients.Provisioning.Cluster().List(r.namespace, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list clusters of %s: %w", r.namespace, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// learn reads the settings that the server of a cluster has published. It returns why they are unknown, or an empty
// string.
func (r *Reader) learn(cluster *provv1.Cluster) (unknown string) {
	r.settings = controllers.Settings{}
	instance := ""
	if cluster != nil {
		instance = cluster.Annotations[rkev1.InstanceAnnotation]
	}
	published, err := r.clients.Core.ConfigMap().List(controllers.SettingsNamespace,
		metav1.ListOptions{LabelSelector: controllers.SettingsLabel + "=true"})
	if err != nil {
		unknown = "they cannot be read: " + err.Error()
	} else if found, ok := controllers.PublishedSettings(published.Items, instance); ok {
		r.settings = found
	} else {
		unknown = "it has not published them"
	}
	if r.opts.Override != nil {
		r.opts.Override(&r.settings)
	}
	return unknown
}

// ControlPlaneResource is the resource of RKEControlPlanes, for IsAbout and IsAbsent.
func ControlPlaneResource() schema.GroupResource {
	return rkev1.SchemeGroupVersion.WithResource("rkecontrolplanes").GroupResource()
}

// controlPlane returns the control plane of a cluster, nil if there is none.
func (r *Reader) controlPlane(name string) (*rkev1.RKEControlPlane, error) {
	controlPlane, err := r.plans.ControlPlanes.Cache().Get(r.namespace, name)
	if IsAbsent(err, ControlPlaneResource(), name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read control plane %s/%s: %w", r.namespace, name, err)
	}
	return controlPlane, nil
}

// machineConfigs reads machine configs. The edited ones, by kind and name, take precedence over live objects.
type machineConfigs struct {
	rehearsal.Dynamic
	edited map[string]*unstructured.Unstructured
}

// Get implements provisioningcluster.DynamicKinds.
func (m machineConfigs) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if found := m.edited[gvk.Kind+"/"+name]; found != nil {
		return found, nil
	}
	return m.Dynamic.Get(gvk, namespace, name)
}
