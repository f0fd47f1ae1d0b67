package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
)

// maxDriverConfig limits a driver's configuration file, in bytes. Real ones have a few kilobytes.
const maxDriverConfig = 4 << 20

// DecodeDriver reads the addresses that a machine driver recorded. The input is the value of key extractedConfig in the
// machine state Secret: a gzipped tar with a file …/machines/<name>/config.json. Empty data give nil without an error,
// because the driver has not saved anything yet. Errors name what is malformed. They contain nothing from the content,
// because it has credentials.
func DecodeDriver(extractedConfig []byte) (*Driver, error) {
	if len(extractedConfig) == 0 {
		return nil, nil
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(extractedConfig))
	if err != nil {
		return nil, errors.New("machine state must be a gzip archive")
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("machine state must contain file machines/<name>/config.json")
		}
		if err != nil {
			return nil, errors.New("machine state must be a tar archive")
		}
		if isDriverConfig(header.Name) {
			return decodeDriverConfig(io.LimitReader(archive, maxDriverConfig))
		}
	}
}

func isDriverConfig(name string) bool {
	dir, file := path.Split(path.Clean("/" + name))
	return file == "config.json" && path.Base(path.Dir(path.Clean(dir))) == "machines"
}

func decodeDriverConfig(in io.Reader) (*Driver, error) {
	var config struct {
		DriverName string
		Driver     struct {
			IPAddress, PrivateIPAddress, IPv6Address string
		}
	}
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return nil, fmt.Errorf("read config.json of the machine state: %s", jsonProblem(err))
	}
	return &Driver{
		Name:             config.DriverName,
		IPAddress:        config.Driver.IPAddress,
		PrivateIPAddress: config.Driver.PrivateIPAddress,
		IPv6Address:      config.Driver.IPv6Address,
	}, nil
}

// jsonProblem describes a JSON error without the content, which may be secret.
func jsonProblem(err error) string {
	if typeError, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "field " + typeError.Field + " has the wrong type"
	}
	return "it is not valid JSON"
}
