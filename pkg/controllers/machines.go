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
	// machineDrivers is the folder of node drivers in the data directory.
	machineDrivers = "machine-drivers"
	// serverCertificate is the file with the server's authority in the container that makes machines.
	serverCertificate = "tls.crt"
	// createDeadline and removeDeadline end a Job that makes no progress. The slowest clouds take half an hour.
	createDeadline = time.Hour
	removeDeadline = time.Hour
)

// registerNodeDriver also creates the built-in drivers and restores their definitions at every start.
func (d Deps) registerNodeDriver(ctx context.Context) error {
	drivers := d.Clients.Management.NodeDriver()
	if err := nodedriver.Seed(drivers); err != nil {
		return err
	}
	return nodedriver.Register(ctx, nodedriver.Deps{
		NodeDrivers: drivers, DynamicSchemas: d.Clients.Management.DynamicSchema(),
		Directory: filepath.Join(d.DataDir, machineDrivers),
		Working:   d.Clients.WorkContext(),
	})
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
