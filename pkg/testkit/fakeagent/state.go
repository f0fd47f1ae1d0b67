package fakeagent

import (
	"encoding/json"
	"fmt"

	"github.com/drover-io/drover/pkg/testkit/packed"
)

// stateArchive returns what rancher-machine keeps of a machine: a gzipped tar with the driver's config.json.
func stateArchive(args jobArguments, address string) ([]byte, error) {
	config, err := json.Marshal(map[string]any{
		"ConfigVersion": 3,
		"Name":          args.instance,
		"DriverName":    args.driver,
		"Driver": map[string]any{
			"IPAddress": address, "MachineName": args.instance, "SSHUser": "root", "SSHPort": 22,
		},
		"HostOptions": map[string]any{"CustomInstallScript": "/run/secrets/machine/value",
			"HostnameOverride": args.hostname},
	})
	if err != nil {
		return nil, fmt.Errorf("encode machine state: %w", err)
	}
	file := "/home/machine/.docker/machine/machines/" + args.instance + "/config.json"
	return packed.Archive(map[string]string{file: string(config)}), nil
}
