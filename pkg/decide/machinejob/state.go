package machinejob

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
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
