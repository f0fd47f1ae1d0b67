// Package nspawn is the node driver of the lab, as a plugin for rancher/machine. It is registered with Drover like any
// third-party driver. It only calls the lab's API, with the lab's token as the cloud credential. It has no user-data
// flag, so rancher-machine delivers the install script over SSH.
package nspawn

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/ssh"
	"github.com/rancher/machine/libmachine/state"

	"github.com/drover-io/drover/tests/testbed/lab"
)

// Name is the driver's name. Its flags are called nspawn-…, its machine config NspawnConfig.
const Name = "nspawn"

// callTimeout limits one call to the lab, which boots a machine in about a second.
const callTimeout = 2 * time.Minute

// Driver creates machines in a lab. rancher-machine stores its exported fields between create and remove.
type Driver struct {
	*drivers.BaseDriver
	// URL is the lab's https address.
	URL string
	// Token is the lab's bearer token.
	Token string
	// CA is the certificate authority of the lab's certificate, as base64 of PEM.
	CA string
	// Tag is stored with the machine, as in other clouds.
	Tag string
	// ID is the machine's ID in the lab. It is empty until the machine is created.
	ID string
}

var _ drivers.Driver = (*Driver)(nil)

// New returns a driver for a machine that does not exist yet.
func New(machine, store string) *Driver {
	return &Driver{BaseDriver: &drivers.BaseDriver{MachineName: machine, StorePath: store, SSHUser: "root"}}
}

// DriverName is the plugin's name.
func (d *Driver) DriverName() string { return Name }

// GetCreateFlags returns the driver's settings. Their names and types become the NspawnConfig kind.
func (d *Driver) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "nspawn-url", Usage: "Address of the lab, https://HOST:PORT", EnvVar: "NSPAWN_URL"},
		mcnflag.StringFlag{Name: "nspawn-token", Usage: "Token of the lab", EnvVar: "NSPAWN_TOKEN"},
		mcnflag.StringFlag{Name: "nspawn-ca", Usage: "Certificate authority of the lab, base64 of PEM",
			EnvVar: "NSPAWN_CA"},
		mcnflag.StringFlag{Name: "nspawn-tag", Usage: "Any text, kept with the machine in the lab",
			EnvVar: "NSPAWN_TAG"},
	}
}

// SetConfigFromFlags reads the settings of a create, or of a remove with new credentials.
func (d *Driver) SetConfigFromFlags(flags drivers.DriverOptions) error {
	d.URL, d.Token, d.CA = flags.String("nspawn-url"), flags.String("nspawn-token"), flags.String("nspawn-ca")
	d.Tag = flags.String("nspawn-tag")
	d.SetSwarmConfigFromFlags(flags)
	for name, value := range map[string]string{"nspawn-url": d.URL, "nspawn-token": d.Token, "nspawn-ca": d.CA} {
		if value == "" {
			return fmt.Errorf("%s is required", name)
		}
	}
	return nil
}

func (d *Driver) call(do func(context.Context, *lab.Client) error) error {
	ca, err := base64.StdEncoding.DecodeString(d.CA)
	if err != nil {
		return errors.New("nspawn-ca is not base64")
	}
	client, err := lab.NewClient(d.URL, d.Token, ca)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return do(ctx, client)
}

// PreCreateCheck checks that the lab accepts the token before the machine is created.
func (d *Driver) PreCreateCheck() error {
	return d.faulty(lab.Check, func(ctx context.Context, client *lab.Client) error {
		_, err := client.Get(ctx, d.MachineName)
		if errors.Is(err, lab.ErrNotFound) {
			return nil
		}
		return err
	})
}

// Create creates the machine. It makes the key first, so that a retry finds the same machine with the same key.
func (d *Driver) Create() error {
	key := d.GetSSHKeyPath()
	if _, err := os.Stat(key); errors.Is(err, os.ErrNotExist) {
		if err := ssh.GenerateSSHKey(key); err != nil {
			return fmt.Errorf("make SSH key: %w", err)
		}
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		return fmt.Errorf("read SSH key: %w", err)
	}
	return d.faulty(lab.Create, func(ctx context.Context, client *lab.Client) error {
		m, err := client.Create(ctx, d.MachineName, string(public), d.Tag)
		if err != nil {
			return err
		}
		d.ID, d.IPAddress = m.ID, m.Address.String()
		return nil
	})
}

// GetSSHHostname returns the address to which rancher-machine connects.
func (d *Driver) GetSSHHostname() (string, error) { return d.GetIP() }

// GetURL returns "". It would be a container engine's address, which these machines lack.
func (d *Driver) GetURL() (string, error) { return "", nil }

// GetState returns the state from the lab.
func (d *Driver) GetState() (state.State, error) {
	current := state.None
	err := d.call(func(ctx context.Context, client *lab.Client) error {
		m, err := client.Get(ctx, d.MachineName)
		switch {
		case errors.Is(err, lab.ErrNotFound):
			current = state.NotFound
			return nil
		case err != nil:
			return err
		case m.Running:
			current = state.Running
		default:
			current = state.Stopped
		}
		return nil
	})
	return current, err
}

// Remove deletes the machine. A missing machine is no error.
func (d *Driver) Remove() error {
	return d.faulty(lab.Delete, func(ctx context.Context, client *lab.Client) error {
		return client.Delete(ctx, d.MachineName)
	})
}

func (d *Driver) power(power lab.Power, atOnce bool) error {
	return d.call(func(ctx context.Context, client *lab.Client) error {
		return client.SetPower(ctx, d.MachineName, power, atOnce)
	})
}

// Start boots the machine.
func (d *Driver) Start() error { return d.power(lab.On, false) }

// Stop shuts the machine down.
func (d *Driver) Stop() error { return d.power(lab.Off, false) }

// Kill cuts the machine's power.
func (d *Driver) Kill() error { return d.power(lab.Off, true) }

// Restart shuts the machine down and boots it.
func (d *Driver) Restart() error {
	if err := d.Stop(); err != nil {
		return err
	}
	return d.Start()
}
