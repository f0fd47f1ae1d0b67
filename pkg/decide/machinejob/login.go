package machinejob

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
)

const (
	// defaultSSHUser and defaultSSHPort are used if the driver recorded none, as by rancher-machine.
	defaultSSHUser = "root"
	defaultSSHPort = 22
	// defaultSSHKey is the file with the private key if the driver recorded none.
	defaultSSHKey = "id_rsa"
	// maxLoginFile limits the files that DecodeLogin reads, in bytes. Real ones have a few kilobytes.
	maxLoginFile = 1 << 20
)

// Errors of DecodeLogin. They contain nothing from the state, because it has credentials.
var (
	errNotAnArchive = errors.New("it must be a gzipped tar")
	errNoMachine    = errors.New("it has no file machines/NAME/config.json: the driver has created no host yet, or " +
		"has removed it")
	errNotJSON      = errors.New("its config.json must be JSON with an object Driver")
	errNoPrivateKey = errors.New("it has no private key: the driver uses a key that Drover does not have")
)

// Login is what rancher-machine uses to log in to the host of a machine.
type Login struct {
	User string
	Port int
	// Addresses are the host's addresses that the driver recorded, the external ones first.
	Addresses []string
	// Key is the private key, as PEM.
	Key []byte
}

// DecodeLogin reads the content of a state Secret (key extractedConfig, docs/wire/machines.md#machine-state).
func DecodeLogin(archive []byte) (Login, error) {
	var folder string
	var config []byte
	err := eachMember(archive, func(name string, content io.Reader) (err error) {
		if config != nil || path.Base(name) != "config.json" || path.Base(path.Dir(path.Dir(name))) != "machines" {
			return nil
		}
		folder = path.Dir(name)
		config, err = io.ReadAll(io.LimitReader(content, maxLoginFile))
		return err
	})
	if err != nil {
		return Login{}, err
	}
	if config == nil {
		return Login{}, errNoMachine
	}
	var read struct {
		Driver struct {
			IPAddress, IPv6Address, PrivateIPAddress string
			SSHUser, SSHKeyPath                      string
			SSHPort                                  int
		}
	}
	if err := json.Unmarshal(config, &read); err != nil {
		return Login{}, errNotJSON
	}
	driver := read.Driver
	login := Login{User: cmp.Or(driver.SSHUser, defaultSSHUser), Port: cmp.Or(driver.SSHPort, defaultSSHPort)}
	for _, address := range []string{driver.IPAddress, driver.IPv6Address, driver.PrivateIPAddress} {
		if address != "" && !slices.Contains(login.Addresses, address) {
			login.Addresses = append(login.Addresses, address)
		}
	}
	login.Key, err = privateKey(archive, folder, path.Base(cmp.Or(driver.SSHKeyPath, defaultSSHKey)))
	return login, err
}

// privateKey returns the content of a file in the machine's folder. The path that the driver recorded belongs to the
// pod that created the machine, so only its name counts.
func privateKey(archive []byte, folder, file string) ([]byte, error) {
	var key []byte
	err := eachMember(archive, func(name string, content io.Reader) (err error) {
		if name == path.Join(folder, file) {
			key, err = io.ReadAll(io.LimitReader(content, maxLoginFile))
		}
		return err
	})
	if err == nil && len(key) == 0 {
		err = errNoPrivateKey
	}
	return key, err
}

// eachMember calls a function with the members of an archive. Names are absolute and clean.
func eachMember(archive []byte, visit func(name string, content io.Reader) error) error {
	if len(archive) == 0 {
		return errNoMachine
	}
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return errNotAnArchive
	}
	for reader := tar.NewReader(io.LimitReader(plain, maxState)); ; {
		member, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && member.Typeflag == tar.TypeReg {
			err = visit(path.Clean("/"+member.Name), reader)
		}
		if err != nil {
			return errNotAnArchive
		}
	}
}
