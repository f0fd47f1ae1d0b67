package distro

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// service is the unit of certificate rotation: a component, or a part of the distribution itself.
type service struct {
	name string
	// agent services keep their certificates in the agent's folder, on servers and workers.
	agent bool
	// certificates are paths without the suffixes of certificate and key.
	certificates []string
}

// services returns all services with certificates, by the names of the real distributions
// (docs/wire/planner.md#certificate-rotation).
func services(l Layout) []service {
	program := string(l.Runtime)
	return []service{
		{"admin", false, []string{l.tls("client-admin")}},
		{"api-server", false, []string{l.tls("client-kube-apiserver"), l.tls("serving-kube-apiserver")}},
		{"auth-proxy", false, []string{l.tls("client-auth-proxy")}},
		{"cloud-controller", false, []string{l.tls("client-" + program + "-cloud-controller")}},
		{"controller-manager", false, []string{l.tls("client-controller"),
			l.tls(servingCertificate(kubeControllerManager))}},
		{"etcd", false, []string{l.etcdTLS("client"), l.etcdTLS("server-client"), l.etcdTLS("peer-server-client")}},
		{"scheduler", false, []string{l.tls("client-scheduler"), l.tls(servingCertificate(kubeScheduler))}},
		{"supervisor", false, []string{l.tls("client-supervisor")}},
		{program + "-server", false, []string{l.tls("dynamic-cert")}},
		{program + "-controller", true, []string{l.agent("client-" + program + "-controller")}},
		{"kube-proxy", true, []string{l.agent("client-kube-proxy")}},
		{"kubelet", true, []string{l.agent("client-kubelet"), l.agent("serving-kubelet")}},
	}
}

// RotateCertificates moves the certificates of the named services aside, so that the next start issues new ones.
// Without names, it moves those of all services of the node. The authorities stay.
func RotateCertificates(runtime Runtime, dataDir string, names []string, out io.Writer) error {
	return rotateCertificates(NewLayout(runtime, dataDir), names, time.Now(), out)
}

func rotateCertificates(l Layout, names []string, now time.Time, out io.Writer) error {
	_, err := os.Stat(l.tls(""))
	server := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at certificates: %w", err)
	}
	chosen, err := chosenServices(services(l), names, server)
	if err != nil {
		return err
	}
	folder := "agent"
	if server {
		folder = "server"
	}
	backup := filepath.Join(l.Data, folder, "tls-"+strconv.FormatInt(now.Unix(), 10))
	if server {
		if err := copyFolder(l.tls(""), backup); err != nil {
			return err
		}
	}
	for _, s := range chosen {
		fmt.Fprintf(out, "Rotating certificates for %s\n", s.name)
		if err := s.moveAside(backup); err != nil {
			return err
		}
	}
	unit := map[bool]string{true: "server", false: "agent"}[server]
	fmt.Fprintf(out, "Successfully backed up certificates to %s, please restart %s %s to rotate certificates\n", backup,
		l.Runtime, unit)
	return nil
}

// chosenServices returns the named services. Without names, it returns all services of a server or a worker.
func chosenServices(all []service, names []string, server bool) ([]service, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s service) bool { return s.name == name }) {
			return nil, fmt.Errorf("service %s is not recognized", name)
		}
	}
	return slices.DeleteFunc(all, func(s service) bool {
		if len(names) > 0 {
			return !slices.Contains(names, s.name)
		}
		return !server && !s.agent
	}), nil
}

// moveAside removes a service's certificates. It first copies those in the agent's folder, because the backup of a
// server does not contain them.
func (s service) moveAside(backup string) error {
	for _, base := range s.certificates {
		for _, path := range []string{base + ".crt", base + ".key"} {
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a server without an API server does not use some of them
			}
			if err == nil && s.agent {
				err = localfile.Write(filepath.Join(backup, filepath.Base(path)), data)
			}
			if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				return fmt.Errorf("rotate certificates of %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// copyFolder copies a folder of keys. Only root can read the copy.
func copyFolder(from, to string) error {
	from = filepath.Clean(from)
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return localfile.Write(filepath.Join(to, strings.TrimPrefix(path, from)), data)
	})
	if err != nil {
		return fmt.Errorf("back up certificates: %w", err)
	}
	return nil
}
