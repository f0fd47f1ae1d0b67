package controllers

import (
	"context"
	"runtime"
	"time"

	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/credentialcheck"
	"github.com/drover-io/drover/pkg/controllers/machineprovision"
	"github.com/drover-io/drover/pkg/controllers/nodedriver"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/reach/connect"
)

const (
	// serverCertificate is the file with the server's authority in the container that makes machines.
	serverCertificate = "tls.crt"
	// createDeadline and removeDeadline end a Job that makes no progress. The slowest clouds take half an hour.
	createDeadline = time.Hour
	removeDeadline = time.Hour
)

// registerNodeDriver also creates the seeded drivers, and restores the definitions of the built-in ones at every start.
func (d Deps) registerNodeDriver(ctx context.Context) error {
	drivers := d.Clients.Management.NodeDriver()
	if err := nodedriver.Seed(drivers, runtime.GOARCH); err != nil {
		return err
	}
	return nodedriver.Register(ctx, nodedriver.Deps{
		NodeDrivers: drivers, DynamicSchemas: d.Clients.Management.DynamicSchema(), Jobs: d.Clients.Batch.Job(),
		Pods: d.Clients.Core.Pod(), Secrets: d.Clients.Core.Secret(),
		Settings: func() driverjob.Settings { return d.Settings.Drivers(d.ServerImage) },
	})
}

func (d Deps) registerCredentialCheck(ctx context.Context, statuses *ownwrites.Statuses) error {
	c := d.Clients
	return credentialcheck.Register(ctx, credentialcheck.Deps{
		Clusters: c.Provisioning.Cluster(), Secrets: c.Core.Secret(), Jobs: c.Batch.Job(), Pods: c.Core.Pod(),
		DynamicSchemas: c.Management.DynamicSchema(), Machines: c.CAPI.Machine(), Kinds: c.Dynamic, Access: d.Access,
		Settings: func() credentialjob.Settings { return d.Settings.CredentialChecks(d.ServerImage) },
		Announce: d.Announce, InstanceID: d.InstanceID, Statuses: statuses,
	})
}

// CredentialChecks returns the settings of the Jobs that check cloud credentials. image is Drover's own.
func (s Settings) CredentialChecks(image string) credentialjob.Settings {
	return credentialjob.Settings{
		Image: naming.ImageIn(s.SystemDefaultRegistry, image), PullSecrets: s.Render().RegistryPullSecrets,
		Proxy: s.ProxyEnv, Authorities: s.CACerts,
	}
}

func (d Deps) registerBootstrap(ctx context.Context, downstream Downstream) error {
	c := d.Clients
	return bootstrap.Register(ctx, bootstrap.Deps{
		Bootstraps: c.RKE.RKEBootstrap(), ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(),
		CAPIClusters: c.CAPI.Cluster(),
		Clusters:     c.Provisioning.Cluster(), Secrets: c.Core.Secret(),
		ServiceAccounts: c.Core.ServiceAccount(), Apply: c.Apply,
		Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(), Downstream: downstream,
		Settings:   d.Settings.Bootstrap(),
		InstanceID: d.InstanceID,
	})
}

func (d Deps) registerMachineProvision(ctx context.Context) error {
	c := d.Clients
	return machineprovision.Register(ctx, machineprovision.Deps{
		Dynamic: c.Dynamic, Machines: c.CAPI.Machine(), CAPIClusters: c.CAPI.Cluster(),
		Clusters:   c.Provisioning.Cluster(),
		Bootstraps: c.RKE.RKEBootstrap(), NodeDrivers: c.Management.NodeDriver(), Jobs: c.Batch.Job(),
		Pods:    c.Core.Pod(),
		Secrets: c.Core.Secret(), Apply: c.Apply, ApplySecrets: c.Secrets, Access: d.Access,
		Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(), ServiceAccounts: c.Core.ServiceAccount(),
		Settings:   d.Settings.Machines,
		InstanceID: d.InstanceID, Disruptions: d.Disruptions, Output: d.outputOf,
	})
}

// Drivers returns the settings of the Jobs that ask node drivers for their flags. image is Drover's own.
func (s Settings) Drivers(image string) driverjob.Settings {
	return driverjob.Settings{
		Namespace: SystemNamespace, Image: naming.ImageIn(s.SystemDefaultRegistry, image),
		PullSecrets: s.SystemDefaultRegistryPullSecrets, Proxy: s.ProxyEnv, Authorities: s.CACerts,
		Arch: runtime.GOARCH, Insecure: s.InsecureNodeDrivers,
	}
}

// Bootstrap returns the settings that install scripts depend on.
func (s Settings) Bootstrap() bootstrap.Settings {
	return bootstrap.Settings{
		ServerURL: s.ServerURL, CACerts: s.CACerts, LinuxInstaller: connect.InstallScript(), ServesAgent: true,
		ReusedTTL: s.BootstrapTokenTTL,
	}
}

// Machines returns the settings of the Jobs that make machines.
func (s Settings) Machines() machinejob.Settings {
	settings := machinejob.Settings{
		Image: s.MachineImage(), PullPolicy: s.MachineProvisionImagePullPolicy,
		Registry: s.SystemDefaultRegistry, PullSecrets: s.Render().RegistryPullSecrets,
		Proxy: s.ProxyEnv, CreateDeadline: createDeadline, RemoveDeadline: removeDeadline,
		DeleteFailedAfter: s.DeleteMachineOnFailureAfter,
	}
	if s.CACerts != "" {
		settings.Certificates = map[string]string{serverCertificate: s.CACerts}
	}
	return settings
}
