package machinejob

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"
)

// maxState limits how many bytes of a state are unpacked. Users may write the state, and a few bytes can unpack to very
// many.
const maxState = 16 << 20

// StateHolds reports whether the content of a state Secret (key extractedConfig) describes a virtual machine. The
// content is a gzipped tar with a member .../machines/NAME/config.json. rancher-machine records a machine there before
// it asks the cloud for one, and removes it after the cloud removed it. An unreadable archive counts as one with a
// machine.
func StateHolds(archive []byte) bool {
	if len(archive) == 0 {
		return false
	}
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return true
	}
	for reader := tar.NewReader(io.LimitReader(plain, maxState)); ; {
		member, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			return true
		}
		if strings.Contains(member.Name, "/machines/") && strings.HasSuffix(member.Name, "/config.json") {
			return true
		}
	}
}

// identifiers lists the drivers that find a host only by an identifier in their state, and the field that has it. They
// learn it from the cloud, and the state has it when they end. Without it, they remove nothing. Most report success.
var identifiers = map[string]string{
	"amazonec2":     "InstanceId",
	"digitalocean":  "DropletID",
	"exoscale":      "ID",
	"openstack":     "MachineId",
	"rackspace":     "MachineId",
	"vmwarevsphere": "MachineId",
}

// StateIdentifies reports whether the driver finds the host that the content of a state Secret describes, if there is a
// host. Drivers that find hosts by name always do.
func StateIdentifies(archive []byte) bool {
	identified := true
	_ = eachMember(archive, func(name string, content io.Reader) error { // without a machine, there is nothing to find
		if path.Base(name) != "config.json" || path.Base(path.Dir(path.Dir(name))) != "machines" {
			return nil
		}
		var config struct {
			DriverName string
			Driver     map[string]any
		}
		// rancher-machine cannot read a damaged file either, and its removal fails.
		err := json.NewDecoder(io.LimitReader(content, maxLoginFile)).Decode(&config)
		if field, known := identifiers[config.DriverName]; err == nil && known {
			id := config.Driver[field]
			identified = id != nil && id != "" && id != 0.0
		}
		return nil
	})
	return identified
}
