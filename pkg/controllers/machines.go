package controllers

import (
	"context"
	"path/filepath"
	"time"

	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/nodedriver"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/reach/connect"
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

// Bootstrap are the settings that the scripts of machines depend on.
func (s Settings) Bootstrap() bootstrap.Settings {
	return bootstrap.Settings{
		ServerURL: s.ServerURL, CACerts: s.CACerts, LinuxInstaller: connect.InstallScript(), ServesAgent: true, ReusedTTL: s.BootstrapTokenTTL,
	}
}

// Machines are the settings of the Jobs that make machines.
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
