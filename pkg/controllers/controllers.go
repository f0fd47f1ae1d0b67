// Package controllers registers all controllers. The order follows an object's way through Drover: kinds of machines,
// Clusters, machines, nodes.
package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/cluster"
	"github.com/drover-io/drover/pkg/controllers/clusteragent"
	"github.com/drover-io/drover/pkg/controllers/clusterregistrationtoken"
	"github.com/drover-io/drover/pkg/controllers/dynamicschema"
	"github.com/drover-io/drover/pkg/controllers/machinedrain"
	"github.com/drover-io/drover/pkg/controllers/machinenodelookup"
	"github.com/drover-io/drover/pkg/controllers/machineprovision"
	"github.com/drover-io/drover/pkg/controllers/planner"
	"github.com/drover-io/drover/pkg/controllers/plansecret"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/controllers/rkecluster"
	"github.com/drover-io/drover/pkg/controllers/rkecontrolplane"
	"github.com/drover-io/drover/pkg/controllers/snapshots"
	"github.com/drover-io/drover/pkg/controllers/unmanaged"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/observe/metrics"
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
	// HostsWithoutNode limits the registered hosts of a cluster without a node; 0 means the default.
	HostsWithoutNode int
	// Servers are the rules for the addresses in kubeconfigs.
	Servers proxy.Servers
	// Access decides which Secrets of other namespaces a Cluster may use. Required.
	Access *access.Checker
	// Disruptions counts restarts, drains and replacements; nil counts nothing.
	Disruptions *metrics.Disruptions
	// AgentUpdates counts updates of agents in clusters; nil counts nothing.
	AgentUpdates *metrics.AgentUpdates
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
			return provisioningcluster.Register(ctx, provisioningcluster.Deps{
				Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(),
				CAPIClusters: c.CAPI.Cluster(), Machines: c.CAPI.Machine(), ControlPlanes: c.RKE.RKEControlPlane(),
				MachineDeployments: c.CAPI.MachineDeployment(), DynamicSchemas: c.Management.DynamicSchema(),
				Secrets: c.Core.Secret(), Namespaces: c.Core.Namespace(), DynamicKinds: c.Dynamic, Apply: c.Apply,
				Access: d.Access, InstanceID: d.InstanceID, Disconnect: mirror.Disconnect, Disruptions: d.Disruptions,
				Statuses:         clusterStatuses,
				Registry:         topology.Registry{URL: d.Settings.SystemDefaultRegistry},
				DeletionDeadline: d.Settings.DeletionDeadline,
				Rival: func(ctx context.Context) (string, error) {
					return rival.Rancher(ctx, c.Kubernetes, time.Now())
				},
			})
		}},
		{"cluster", mirror.Register},
		{"clusterregistrationtoken", func() error { return d.registerRegistrationTokens(ctx) }},
		{"clusteragent", func() error { return d.registerClusterAgents(ctx, downstream) }},
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
		{"bootstrap", func() error {
			return bootstrap.Register(ctx, bootstrap.Deps{
				Bootstraps: c.RKE.RKEBootstrap(), ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(),
				CAPIClusters: c.CAPI.Cluster(),
				Clusters:     c.Provisioning.Cluster(), Secrets: c.Core.Secret(),
				ServiceAccounts: c.Core.ServiceAccount(), Apply: c.Apply,
				Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(), Downstream: downstream,
				Settings:   d.Settings.Bootstrap(),
				InstanceID: d.InstanceID,
			})
		}},
		{"machineprovision", func() error {
			return machineprovision.Register(ctx, machineprovision.Deps{
				Dynamic: c.Dynamic, Machines: c.CAPI.Machine(), CAPIClusters: c.CAPI.Cluster(),
				Clusters:   c.Provisioning.Cluster(),
				Bootstraps: c.RKE.RKEBootstrap(), NodeDrivers: c.Management.NodeDriver(), Jobs: c.Batch.Job(),
				Pods:    c.Core.Pod(),
				Secrets: c.Core.Secret(), Apply: c.Apply, ApplySecrets: c.Secrets, Access: d.Access,
				Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(), Settings: d.Settings.Machines,
				InstanceID: d.InstanceID, Disruptions: d.Disruptions,
			})
		}},
		{"unmanaged", func() error { return d.registerUnmanaged(ctx) }},
		{"machinenodelookup", func() error { return d.registerNodeLookup(ctx, downstream) }},
		{"planner", func() error { return d.registerPlanner(ctx, machineStore) }},
		{"snapshots", func() error { return d.registerSnapshots(ctx, downstream) }},
		{"machinedrain", func() error { return d.registerMachineDrain(ctx, downstream) }},
		{"plansecret", func() error { return d.registerPlanSecret(ctx, machineStore) }},
	} {
		if err := controller.register(); err != nil {
			return fmt.Errorf("controller %s: %w", controller.name, err)
		}
	}
	return nil
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
		Disruptions: d.Disruptions, Reasons: d.Reasons, Log: d.Log,
	})
}

// mirror returns controller cluster.
func (d Deps) mirror(ctx context.Context, downstream Downstream, prober cluster.Prober,
	statuses *ownwrites.Statuses) *cluster.Mirror {
	c := d.Clients
	return cluster.New(ctx, cluster.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(),
		ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(), CAPIClusters: c.CAPI.Cluster(),
		Secrets: c.Core.Secret(), Prober: prober, Refuses: d.Servers.Check, Tunnel: d.tunnelOfClusters(),
		Endpoints:      d.Settings.Endpoints(),
		TokenNamespace: SystemNamespace, InstanceID: d.InstanceID, Statuses: statuses,
		Uninstall: func(ctx context.Context, name types.NamespacedName) error {
			return clusteragent.Uninstall(ctx, downstream, name)
		},
	})
}

// tunnelOfClusters returns a nil interface without a tunnel. An interface that holds a nil value is not nil.
func (d Deps) tunnelOfClusters() cluster.Tunnel {
	if d.Tunnel == nil {
		return nil
	}
	return d.Tunnel
}

// Endpoints returns the address and the authority of the server through which clusters are reached.
func (s Settings) Endpoints() cluster.Endpoints {
	return cluster.Endpoints{Server: s.ServerURL, Authority: []byte(s.CACerts)}
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

func (d Deps) registerUnmanaged(ctx context.Context) error {
	c := d.Clients
	return unmanaged.Register(ctx, unmanaged.Deps{
		Secrets: c.Core.Secret(), Bootstraps: c.RKE.RKEBootstrap(), CustomMachines: c.RKE.CustomMachine(),
		Machines:     c.CAPI.Machine(),
		CAPIClusters: c.CAPI.Cluster(), Clusters: c.Provisioning.Cluster(), InstanceID: d.InstanceID, Log: d.Log,
		Tokens: c.Management.ClusterRegistrationToken(), HostsWithoutNode: d.HostsWithoutNode,
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

// AgentSource returns what the manifest of the agents inside clusters is made from.
func (s Settings) AgentSource(image string) clustermanifest.Source {
	tokens := s.Registration(false)
	return clustermanifest.Source{
		ServerURL: tokens.ServerURL, CAChecksum: tokens.CAChecksum, Image: image, Registry: s.SystemDefaultRegistry,
		PullSecrets: s.Render().RegistryPullSecrets,
	}
}

// Registration returns the settings of registration tokens. agents means that Drover updates agents, so they follow
// their token.
func (s Settings) Registration(agents bool) registration.Settings {
	return registration.Settings{
		AgentsFollow: agents,
		ServerURL:    strings.TrimRight(s.ServerURL, "/"), CAChecksum: naming.CAChecksum(s.CACerts),
		TTL: s.RegistrationTokenTTL, GracePeriod: s.RegistrationTokenGracePeriod,
	}
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

// renderSettings returns the settings that plans depend on.
func (d Deps) renderSettings() render.Settings { return d.Settings.Render() }

// Render returns the settings that plans depend on.
func (s Settings) Render() render.Settings {
	settings := render.Settings{InstallerImage: s.SystemAgentInstallerImage,
		SystemDefaultRegistry: s.SystemDefaultRegistry}
	for _, name := range s.SystemDefaultRegistryPullSecrets {
		settings.RegistryPullSecrets = append(settings.RegistryPullSecrets,
			types.NamespacedName{Namespace: SystemNamespace, Name: name})
	}
	return settings
}
