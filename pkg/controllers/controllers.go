// Package controllers registers all controllers. The order follows an object's way through Drover: kinds of machines,
// Clusters, machines, nodes.
package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/cluster"
	"github.com/drover-io/drover/pkg/controllers/clusteragent"
	"github.com/drover-io/drover/pkg/controllers/clusterregistrationtoken"
	"github.com/drover-io/drover/pkg/controllers/clustersync"
	"github.com/drover-io/drover/pkg/controllers/credential"
	"github.com/drover-io/drover/pkg/controllers/dynamicschema"
	"github.com/drover-io/drover/pkg/controllers/fleetcluster"
	"github.com/drover-io/drover/pkg/controllers/fleetworkspace"
	"github.com/drover-io/drover/pkg/controllers/machineconfig"
	"github.com/drover-io/drover/pkg/controllers/machinedrain"
	"github.com/drover-io/drover/pkg/controllers/machinenodelookup"
	"github.com/drover-io/drover/pkg/controllers/managedchart"
	"github.com/drover-io/drover/pkg/controllers/planner"
	"github.com/drover-io/drover/pkg/controllers/plansecret"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/controllers/provisioninglog"
	"github.com/drover-io/drover/pkg/controllers/rkecluster"
	"github.com/drover-io/drover/pkg/controllers/rkecontrolplane"
	"github.com/drover-io/drover/pkg/controllers/snapshots"
	"github.com/drover-io/drover/pkg/controllers/unmanaged"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/observe/events"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/releases"
)

// Deps holds what the controllers depend on.
type Deps struct {
	Clients    *clients.Clients
	InstanceID string
	Settings   Settings
	Releases   releases.Table
	// ServerImage is Drover's own image. Jobs that ask node drivers for their flags use it.
	ServerImage string
	// Downstream is the host program's own connection to clusters. Without it, Drover uses Door. Without Door, it uses
	// the kubeconfig that each cluster's servers wrote.
	Downstream Downstream
	// Door reaches clusters through Tunnel. NewDoor makes it.
	Door *proxy.Door
	// Tunnel holds the connections that agents in clusters have opened. Nil means no tunnel.
	Tunnel cluster.Tunnel
	// AgentImage is the image of the agents inside clusters, without the prefix of a cluster's registry. Empty means
	// clusters get no agent.
	AgentImage string
	// InstallScriptSHA256 returns the SHA-256 of the install script for hosts; nil means unknown.
	InstallScriptSHA256 func() string
	// NodeAgent returns the node agent that this server offers to machines; nil means none.
	NodeAgent func() *render.Agent
	// HostsWithoutNode limits the registered hosts of a cluster without a node; 0 means the default.
	HostsWithoutNode int
	// Servers are the rules for the addresses in kubeconfigs, and for those of charts.
	Servers proxy.Servers
	// Access decides which Secrets of other namespaces a Cluster may use. Required.
	Access *access.Checker
	// Disruptions counts restarts, drains and replacements; nil counts nothing.
	Disruptions *metrics.Disruptions
	// AgentUpdates counts updates of agents in clusters; nil counts nothing.
	AgentUpdates *metrics.AgentUpdates
	// Announce records an Event; nil records none.
	Announce func(events.Event)
	// Reasons records what clusters wait for; nil records nothing.
	Reasons *metrics.Reasons
	Log     logrus.FieldLogger
}

// Downstream connects to the clusters that Drover manages. A host program with its own tunnel can supply its own.
type Downstream = proxy.Downstream

// door returns Downstream, or Door, or clients that use the kubeconfigs of the servers.
func (d Deps) door() Downstream {
	switch {
	case d.Downstream != nil:
		return d.Downstream
	case d.Door != nil:
		return d.Door
	}
	return proxy.NewClients(d.Clients.Core.Secret().Cache(), 0, d.Servers)
}

// NewDoor returns connections through the tunnels of cluster agents. Until an agent has dialed in, it uses the
// kubeconfig that the servers wrote.
//
// If two Clusters name the same management cluster, neither is reached through its tunnel. Otherwise Drover would act
// as administrator in the wrong cluster. Call NewDoor before the caches of c start, because it adds an index to them.
func NewDoor(c *clients.Clients, tunnels proxy.Tunnels, servers proxy.Servers,
	identity func(cluster types.NamespacedName) proxy.Identity) *proxy.Door {
	clusters, management := c.Provisioning.Cluster().Cache(), c.Management.Cluster().Cache()
	clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	return proxy.NewDoor(proxy.NewClients(c.Core.Secret().Cache(), 0, servers), tunnels,
		func(name types.NamespacedName) proxy.Way {
			cluster, err := clusters.Get(name.Namespace, name.Name)
			if err != nil || cluster.Status.ClusterName == "" {
				return proxy.Way{}
			}
			if claims, err := clusters.GetByIndex(provv1.IndexByCluster, cluster.Status.ClusterName); err != nil ||
				len(claims) != 1 {
				return proxy.Way{}
			}
			record, err := management.Get(cluster.Status.ClusterName)
			return proxy.Way{
				ID: cluster.Status.ClusterName, Agent: err == nil &&
					conditions.IsTrue(record.Status.Conditions, mgmtv3.ClusterConditionAgentDeployed),
			}
		}, identity)
}

// Register adds the handlers of all controllers. They end with ctx and start with Clients.
func Register(ctx context.Context, d Deps) error {
	c := d.Clients
	downstream := d.door()
	prober := proxy.NewProber(ctx, downstream, func(namespace, name string) {
		c.Provisioning.Cluster().EnqueueAfter(namespace, name, 0)
	})

	machineStore := planstore.NewMachines(c.CAPI.Machine())
	clusterStatuses := ownwrites.NewStatuses()
	mirror := d.mirror(ctx, downstream, prober, clusterStatuses)
	inFleet := d.fleetClusters(ctx, clusterStatuses)

	for _, controller := range []struct {
		name     string
		register func() error
	}{
		{"nodedriver", func() error { return d.registerNodeDriver(ctx) }},
		{"dynamicschema", func() error {
			return dynamicschema.Register(ctx, dynamicschema.Deps{
				DynamicSchemas: c.Management.DynamicSchema(), CRDs: c.CRDs.CustomResourceDefinition(),
				Objects: c.Dynamic, Apply: c.Apply,
			})
		}},
		{"provisioningcluster", func() error {
			//nolint:contextcheck // the work of both controllers ends with their own context
			return d.registerProvisioningClusters(ctx, clusterStatuses, disconnect(inFleet, mirror))
		}},
		{"machineconfig", func() error {
			return machineconfig.Register(ctx, machineconfig.Deps{
				Dynamic: c.Dynamic, Clusters: c.Provisioning.Cluster(), Log: d.Log, Rival: d.rival,
			})
		}},
		{"credential", func() error {
			return credential.Register(ctx, credential.Deps{
				Secrets: c.Core.Secret(), Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(), Rival: d.rival,
			})
		}},
		{"credentialcheck", func() error { return d.registerCredentialCheck(ctx, clusterStatuses) }},
		{"cluster", mirror.Register},
		{"provisioninglog", func() error {
			return provisioninglog.Register(ctx, provisioninglog.Deps{
				Clusters: c.Provisioning.Cluster(), ConfigMaps: c.Core.ConfigMap(), InstanceID: d.InstanceID,
			})
		}},
		{"fleetcluster", inFleet.Register},
		{"fleetworkspace", func() error { return d.registerFleetWorkspaces(ctx) }},
		{"clusterregistrationtoken", func() error { return d.registerRegistrationTokens(ctx) }},
		{"clusteragent", func() error { return d.registerClusterAgents(ctx, downstream) }},
		{"autoscaler", func() error { return d.registerAutoscalers(ctx, downstream, clusterStatuses) }},
		{"clustersync", func() error { return d.registerClusterSync(ctx, downstream) }},
		{"rkecluster", func() error {
			return rkecluster.Register(ctx, rkecluster.Deps{
				RKEClusters: c.RKE.RKECluster(), CAPIClusters: c.CAPI.Cluster(), Clusters: c.Provisioning.Cluster(),
				InstanceID: d.InstanceID,
			})
		}},
		{"rkecontrolplane", func() error {
			return rkecontrolplane.Register(ctx, rkecontrolplane.Deps{
				ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(), Clusters: c.Provisioning.Cluster(),
				InstanceID: d.InstanceID, DeletionDeadline: d.Settings.DeletionDeadline,
			})
		}},
		{"bootstrap", func() error { return d.registerBootstrap(ctx, downstream) }},
		{"machineprovision", func() error { return d.registerMachineProvision(ctx) }},
		{"unmanaged", func() error { return d.registerUnmanaged(ctx, downstream) }},
		{"machinenodelookup", func() error { return d.registerNodeLookup(ctx, downstream) }},
		{"planner", func() error { return d.registerPlanner(ctx, machineStore) }},
		{"snapshots", func() error { return d.registerSnapshots(ctx, downstream) }},
		{"machinedrain", func() error { return d.registerMachineDrain(ctx, downstream) }},
		{"plansecret", func() error { return d.registerPlanSecret(ctx, machineStore) }},
		{"managedchart", func() error { return d.registerManagedCharts(ctx) }},
	} {
		if err := controller.register(); err != nil {
			return fmt.Errorf("controller %s: %w", controller.name, err)
		}
	}
	return nil
}

// mostOutput is the number of lines that are read from the log of a pod.
const mostOutput = 500

// outputOf returns the last lines that the pod of a machine's Job has written.
func (d Deps) outputOf(ctx context.Context, namespace, pod string) ([]byte, error) {
	return d.Clients.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod,
		&corev1.PodLogOptions{Container: machinejob.Container, TailLines: new(int64(mostOutput))}).DoRaw(ctx)
}

// rival returns which other manager runs here, "" without one.
func (d Deps) rival(ctx context.Context) (string, error) {
	return rival.Rancher(ctx, d.Clients.Kubernetes, time.Now())
}

func (d Deps) registerPlanner(ctx context.Context, machineStore *planstore.Machines) error {
	c := d.Clients
	return planner.Register(ctx, planner.Deps{
		InstanceID: d.InstanceID, ProvisioningClusters: c.Provisioning.Cluster(),
		ControlPlanes: c.RKE.RKEControlPlane(),
		Bootstraps:    c.RKE.RKEBootstrap(), Clusters: c.CAPI.Cluster(), Machines: c.CAPI.Machine(),
		ManagementClusters: c.Management.Cluster(), Secrets: c.Core.Secret(), ConfigMaps: c.Core.ConfigMap(),
		Snapshots: c.RKE.ETCDSnapshot(), Release: d.Releases.Release, Settings: d.renderSettings,
		MachineStore:  machineStore,
		ClusterAgents: d.installsAgents, AgentProblem: d.agentProblem, Access: d.Access,
		Agent: d.NodeAgent, AgentsFollow: d.Settings.AgentUpgrades == AgentUpgradesAuto,
		Disruptions: d.Disruptions, Reasons: d.Reasons, Log: d.Log,
	})
}

func (d Deps) registerProvisioningClusters(ctx context.Context, statuses *ownwrites.Statuses,
	disconnect func(*provv1.Cluster) error) error {
	c := d.Clients
	return provisioningcluster.Register(ctx, provisioningcluster.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(),
		CAPIClusters: c.CAPI.Cluster(), Machines: c.CAPI.Machine(), ControlPlanes: c.RKE.RKEControlPlane(),
		MachineDeployments: c.CAPI.MachineDeployment(), DynamicSchemas: c.Management.DynamicSchema(),
		Snapshots: c.RKE.ETCDSnapshot(),
		Secrets:   c.Core.Secret(), Namespaces: c.Core.Namespace(), DynamicKinds: c.Dynamic, Apply: c.Apply,
		CRDs:                 c.CRDs.CustomResourceDefinition(),
		PodSecurityTemplates: c.Management.PodSecurityAdmissionConfigurationTemplate(),
		Access:               d.Access, InstanceID: d.InstanceID,
		Disconnect: disconnect, Disruptions: d.Disruptions,
		Statuses:         statuses,
		Registry:         topology.Registry{URL: d.Settings.SystemDefaultRegistry},
		DeletionDeadline: d.Settings.DeletionDeadline,
		Rival:            d.rival,
	})
}

// mirror returns controller cluster.
func (d Deps) mirror(ctx context.Context, downstream Downstream, prober cluster.Prober,
	statuses *ownwrites.Statuses) *cluster.Mirror {
	c := d.Clients
	return cluster.New(ctx, cluster.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(),
		ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(), CAPIClusters: c.CAPI.Cluster(),
		Secrets: c.Core.Secret(), Namespaces: c.Core.Namespace(), Prober: prober, Downstream: downstream,
		Refuses: d.Servers.Check,
		Tunnel:  d.tunnelOfClusters(), Endpoints: d.Settings.Endpoints(),
		TokenNamespace: SystemNamespace, InstanceID: d.InstanceID, Statuses: statuses,
		Uninstall: func(ctx context.Context, name types.NamespacedName) error {
			return clusteragent.Uninstall(ctx, downstream, name)
		},
	})
}

// fleetClusters returns controller fleetcluster.
func (d Deps) fleetClusters(ctx context.Context, statuses *ownwrites.Statuses) *fleetcluster.Controller {
	c := d.Clients
	return fleetcluster.New(ctx, fleetcluster.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(), Secrets: c.Core.Secret(),
		Namespaces: c.Core.Namespace(), CRDs: c.CRDs.CustomResourceDefinition(), Kinds: c.Dynamic, Apply: c.Apply,
		InstanceID: d.InstanceID, Statuses: statuses,
	})
}

func (d Deps) registerFleetWorkspaces(ctx context.Context) error {
	c := d.Clients
	return fleetworkspace.Register(ctx, fleetworkspace.Deps{
		Workspaces: c.Management.FleetWorkspace(), Namespaces: c.Core.Namespace(),
		Clusters: c.Provisioning.Cluster(), CAPIClusters: c.CAPI.Cluster(),
		CRDs: c.CRDs.CustomResourceDefinition(), Kinds: c.Dynamic, Apply: c.Apply, Rival: d.rival,
	})
}

// disconnect ends what a deleted Cluster has outside: its Fleet Cluster, and then its connection.
func disconnect(inFleet *fleetcluster.Controller, mirror *cluster.Mirror) func(*provv1.Cluster) error {
	return func(deleted *provv1.Cluster) error {
		if err := inFleet.Remove(deleted); err != nil {
			return err
		}
		return mirror.Disconnect(deleted)
	}
}

// tunnelOfClusters returns a nil interface without a tunnel. An interface that holds a nil value is not nil.
func (d Deps) tunnelOfClusters() cluster.Tunnel {
	if d.Tunnel == nil {
		return nil
	}
	return d.Tunnel
}

func (d Deps) registerRegistrationTokens(ctx context.Context) error {
	c := d.Clients
	settings := d.Settings.Registration(d.installsAgents())
	return clusterregistrationtoken.Register(ctx, clusterregistrationtoken.Deps{
		Tokens: c.Management.ClusterRegistrationToken(), ManagementClusters: c.Management.Cluster(),
		Clusters: c.Provisioning.Cluster(),
		Secrets:  c.Core.Secret(), InstanceID: d.InstanceID, Settings: settings, Log: d.Log,
		InstallScriptSHA256: d.InstallScriptSHA256,
	})
}

func (d Deps) registerUnmanaged(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	return unmanaged.Register(ctx, unmanaged.Deps{
		Secrets: c.Core.Secret(), Bootstraps: c.RKE.RKEBootstrap(), CustomMachines: c.RKE.CustomMachine(),
		Machines:     c.CAPI.Machine(),
		CAPIClusters: c.CAPI.Cluster(), Clusters: c.Provisioning.Cluster(), InstanceID: d.InstanceID, Log: d.Log,
		Tokens: c.Management.ClusterRegistrationToken(), HostsWithoutNode: d.HostsWithoutNode,
		ControlPlanes: c.RKE.RKEControlPlane(), RKEClusters: c.RKE.RKECluster(), Downstream: downstream,
		Disruptions: d.Disruptions,
	})
}

func (d Deps) registerNodeLookup(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	return machinenodelookup.Register(ctx, machinenodelookup.Deps{
		Bootstraps: c.RKE.RKEBootstrap(), Machines: c.CAPI.Machine(), CustomMachines: c.RKE.CustomMachine(),
		Secrets: c.Core.Secret(),
		Dynamic: c.Dynamic, Downstream: downstream, Clusters: c.Provisioning.Cluster(), CAPIClusters: c.CAPI.Cluster(),
		InstanceID: d.InstanceID, Log: d.Log,
	})
}

func (d Deps) registerSnapshots(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	return snapshots.Register(ctx, snapshots.Deps{
		ControlPlanes: c.RKE.RKEControlPlane(), Snapshots: c.RKE.ETCDSnapshot(), Clusters: c.Provisioning.Cluster(),
		CAPIClusters: c.CAPI.Cluster(),
		Machines:     c.CAPI.Machine(), Downstream: downstream, InstanceID: d.InstanceID, Log: d.Log,
	})
}

// installsAgents reports whether Drover installs agents in clusters and updates them. Agents need a tunnel to dial.
func (d Deps) installsAgents() bool { return d.AgentImage != "" && d.Tunnel != nil }

// agentProblem returns why the agent of a cluster cannot be installed or updated, "" without a problem.
func (d Deps) agentProblem(cluster *mgmtv3.Cluster) string {
	if !d.installsAgents() {
		return ""
	}
	return clustermanifest.Problem(d.Settings.AgentSource(d.AgentImage), cluster)
}

func (d Deps) registerClusterAgents(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	if !d.installsAgents() {
		return nil
	}
	return clusteragent.Register(ctx, clusteragent.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(),
		ControlPlanes: c.RKE.RKEControlPlane(), Secrets: c.Core.Secret(),
		InstanceID: d.InstanceID, Log: d.Log, Tunnel: d.Tunnel, Downstream: downstream, Metrics: d.AgentUpdates,
		Source: d.Settings.AgentSource(d.AgentImage),
	})
}

func (d Deps) registerClusterSync(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	return clustersync.Register(ctx, clustersync.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(), Secrets: c.Core.Secret(),
		ConfigMaps: c.Core.ConfigMap(), Downstream: downstream, Tunnel: d.tunnelOfClusters(), InstanceID: d.InstanceID,
		Announce: d.Announce, Log: d.Log,
	})
}

func (d Deps) registerMachineDrain(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	return machinedrain.Register(ctx, machinedrain.Deps{
		InstanceID: d.InstanceID, Secrets: c.Core.Secret(), Machines: c.CAPI.Machine(),
		ProvisioningClusters: c.Provisioning.Cluster().Cache(), Downstream: downstream,
	})
}

func (d Deps) registerPlanSecret(ctx context.Context, machineStore *planstore.Machines) error {
	c := d.Clients
	return plansecret.Register(ctx, plansecret.Deps{
		InstanceID: d.InstanceID, Secrets: c.Core.Secret(), Machines: c.CAPI.Machine(),
		ControlPlanes: c.RKE.RKEControlPlane().Cache(), ProvisioningClusters: c.Provisioning.Cluster().Cache(),
		MachineStore: machineStore, Taken: c.Provisioning.Cluster(),
	})
}

func (d Deps) registerManagedCharts(ctx context.Context) error {
	c := d.Clients
	return managedchart.Register(ctx, managedchart.Deps{
		ManagedCharts: c.Management.ManagedChart(), Secrets: c.Core.Secret(), CRDs: c.CRDs.CustomResourceDefinition(),
		Kinds: c.Dynamic, Fetch: chartrepo.New(d.Servers).Fetch, Rival: d.rival,
	})
}

// renderSettings returns the settings that plans depend on.
func (d Deps) renderSettings() render.Settings { return d.Settings.Render() }
