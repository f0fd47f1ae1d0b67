// Command driverflags prints the create flags of rancher-machine's built-in drivers, as the JSON table that the server
// embeds. It uses the module version from which the program is built.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/rancher/machine/drivers/amazonec2"
	"github.com/rancher/machine/drivers/azure"
	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/drivers/exoscale"
	"github.com/rancher/machine/drivers/generic"
	"github.com/rancher/machine/drivers/google"
	"github.com/rancher/machine/drivers/noop"
	"github.com/rancher/machine/drivers/openstack"
	"github.com/rancher/machine/drivers/pod"
	"github.com/rancher/machine/drivers/rackspace"
	"github.com/rancher/machine/drivers/softlayer"
	"github.com/rancher/machine/drivers/vmwarevsphere"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
)

// flag is one entry of the table. The server's package driverschema reads it.
type flag struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Usage   string   `json:"usage,omitempty"`
	EnvVar  string   `json:"envVar,omitempty"`
	Default string   `json:"default,omitempty"`
	List    []string `json:"list,omitempty"`
}

// table is the output.
type table struct {
	// Version is the release of rancher-machine.
	Version string            `json:"version"`
	Drivers map[string][]flag `json:"drivers"`
}

const machineModule = "github.com/rancher/machine"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "driverflags:", err)
		os.Exit(1)
	}
}

func run() error {
	version, err := machineVersion()
	if err != nil {
		return err
	}
	out := table{Version: version, Drivers: map[string][]flag{}}
	for name, driver := range compiledIn() {
		for _, f := range driver.GetCreateFlags() {
			entry, err := convert(f)
			if err != nil {
				return fmt.Errorf("driver %s: %w", name, err)
			}
			out.Drivers[name] = append(out.Drivers[name], entry)
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return encoder.Encode(out)
}

func machineVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("this program was built without module information")
	}
	for _, dependency := range info.Deps {
		if dependency.Path == machineModule {
			return dependency.Version, nil
		}
	}
	return "", fmt.Errorf("module %s is not part of this program", machineModule)
}

func compiledIn() map[string]drivers.Driver {
	return map[string]drivers.Driver{
		"amazonec2":     amazonec2.NewDriver("", ""),
		"azure":         azure.NewDriver("", ""),
		"digitalocean":  digitalocean.NewDriver("", ""),
		"exoscale":      exoscale.NewDriver("", ""),
		"generic":       generic.NewDriver("", ""),
		"google":        google.NewDriver("", ""),
		"noop":          noop.NewDriver("", ""),
		"openstack":     openstack.NewDriver("", ""),
		"pod":           pod.NewDriver("", ""),
		"rackspace":     rackspace.NewDriver("", ""),
		"softlayer":     softlayer.NewDriver("", ""),
		"vmwarevsphere": vmwarevsphere.NewDriver("", ""),
	}
}

func convert(f mcnflag.Flag) (flag, error) {
	switch f := f.(type) {
	case mcnflag.StringFlag:
		return flag{Name: f.Name, Type: "string", Usage: f.Usage, EnvVar: f.EnvVar, Default: f.Value}, nil
	case *mcnflag.StringFlag:
		return convert(*f)
	case mcnflag.IntFlag:
		return flag{Name: f.Name, Type: "int", Usage: f.Usage, EnvVar: f.EnvVar, Default: strconv.Itoa(f.Value)}, nil
	case *mcnflag.IntFlag:
		return convert(*f)
	case mcnflag.BoolFlag:
		return flag{Name: f.Name, Type: "bool", Usage: f.Usage, EnvVar: f.EnvVar}, nil
	case *mcnflag.BoolFlag:
		return convert(*f)
	case mcnflag.StringSliceFlag:
		return flag{Name: f.Name, Type: "list", Usage: f.Usage, EnvVar: f.EnvVar, List: f.Value}, nil
	case *mcnflag.StringSliceFlag:
		return convert(*f)
	default:
		return flag{}, fmt.Errorf("flag %s has the unknown type %T", f, f)
	}
}
