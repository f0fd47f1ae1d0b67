package controllers

import (
	"context"
	"path/filepath"
	"time"

	"github.com/drover-io/drover/pkg/connect"
	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/nodedriver"
	"github.com/drover-io/drover/pkg/machinejob"
)

const (
	// machineDrivers is the folder of the data directory that node drivers are kept in.
	machineDrivers = "machine-drivers"
	// serverCertificate is the file under which the container that makes machines finds the server's authority.
	serverCertificate = "tls.crt"
	// createDeadline and removeDeadline end a Job that does not get on: the slowest clouds take half an hour.
	createDeadline = time.Hour
	removeDeadline = time.Hour
)

// registerNodeDriver also makes the drivers that every installation has, and asserts at every start what describes them.
func (d Deps) registerNodeDriver(ctx context.Context) error {
	drivers := d.Clients.Management.NodeDriver()
	if err := nodedriver.Seed(drivers); err != nil {
		return err
	}
	return nodedriver.Register(ctx, nodedriver.Deps{
		NodeDrivers: drivers, DynamicSchemas: d.Clients.Management.DynamicSchema(), Directory: filepath.Join(d.DataDir, machineDrivers),
		Working: d.Clients.WorkContext(),
	})
}

// bootstrapSettings are the settings that the scripts of machines depend on.
func (d Deps) bootstrapSettings() bootstrap.Settings {
	return bootstrap.Settings{
		ServerURL: d.Settings.ServerURL, CACerts: d.Settings.CACerts, LinuxInstaller: connect.InstallScript(), ServesAgent: true,
		ReusedTTL: d.Settings.BootstrapTokenTTL,
	}
}

// machineSettings are the settings of the Jobs that make machines.
func (d Deps) machineSettings() machinejob.Settings {
	settings := machinejob.Settings{
		Image: d.Settings.MachineImage(), PullPolicy: d.Settings.MachineProvisionImagePullPolicy,
		Registry: d.Settings.SystemDefaultRegistry, PullSecrets: d.Settings.Render().RegistryPullSecrets,
		Proxy: d.Settings.ProxyEnv, CreateDeadline: createDeadline, RemoveDeadline: removeDeadline,
		DeleteFailedAfter: d.Settings.DeleteMachineOnFailureAfter,
	}
	if d.Settings.CACerts != "" {
		settings.Certificates = map[string]string{serverCertificate: d.Settings.CACerts}
	}
	return settings
}
