package fakeagent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
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
		"HostOptions": map[string]any{"CustomInstallScript": "/run/secrets/machine/value", "HostnameOverride": args.hostname},
	})
	if err != nil {
		return nil, fmt.Errorf("encode machine state: %w", err)
	}
	return archive(map[string][]byte{"/home/machine/.docker/machine/machines/" + args.instance + "/config.json": config})
}

// emptyArchive returns what rancher-machine leaves after it removed a machine.
func emptyArchive() ([]byte, error) { return archive(nil) }

func archive(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	writer := tar.NewWriter(zipped)
	for name, content := range files {
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			return nil, fmt.Errorf("write machine state: %w", err)
		}
		if _, err := writer.Write(content); err != nil {
			return nil, fmt.Errorf("write machine state: %w", err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("write machine state: %w", err)
	}
	if err := zipped.Close(); err != nil {
		return nil, fmt.Errorf("write machine state: %w", err)
	}
	return out.Bytes(), nil
}
