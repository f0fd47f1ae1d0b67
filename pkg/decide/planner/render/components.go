package render

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/drover-io/drover/pkg/decide/distro"
)

// layerComponents makes kube-controller-manager and kube-scheduler keep their certificates where probes can verify
// them, unless the user configured it. RKE2 runs them in static pods that need the directory mounted.
func (m *machinePlan) layerComponents() error {
	if !m.roles.ControlPlane {
		return nil
	}
	for _, component := range []distro.Component{distro.ControllerManager(), distro.Scheduler()} {
		args := listOf(m.config[component.ArgKey])
		mount := component.CertDir(m.dirs)
		if file := argValue(args, "tls-cert-file"); file != "" {
			mount = path.Dir(file)
		} else if dir := argValue(args, "cert-dir"); dir != "" {
			mount = dir
		} else {
			args = append(args, "cert-dir="+mount)
		}
		if argValue(args, "secure-port") == "" {
			args = append(args, "secure-port="+strconv.Itoa(component.Port))
		}
		m.config[component.ArgKey] = args
		if m.runtime == distro.RKE2 {
			m.addMount(component.ExtraMountKey, mount+":"+mount)
		}
	}
	return nil
}

func (m *machinePlan) addMount(key, mount string) {
	list := listOf(m.config[key])
	if !slices.Contains(list, any(mount)) {
		list = append(list, mount)
	}
	m.config[key] = list
}

// argValue finds an argument name=value in a list. The last one wins, as for the component.
func argValue(args []any, name string) string {
	for _, item := range slices.Backward(args) {
		text, _ := item.(string)
		key, value, found := strings.Cut(strings.TrimLeft(text, "-"), "=")
		if found && key == name {
			return value
		}
	}
	return ""
}

// healthOf is the address of a component's health: its port and its serving certificate.
func (m *machinePlan) healthOf(component distro.Component) (port, cert string) {
	args := listOf(m.config[component.ArgKey])
	port = argValue(args, "secure-port")
	if port == "" {
		port = strconv.Itoa(component.Port)
	}
	if cert = argValue(args, "tls-cert-file"); cert != "" {
		return port, cert
	}
	dir := argValue(args, "cert-dir")
	if dir == "" || m.runtime == distro.K3s && passesCertificates(m.spec.KubernetesVersion) {
		dir = component.CertDir(m.dirs)
	}
	return port, path.Join(dir, component.Name+".crt")
}

// passesCertificates reports whether a version of K3s makes the serving certificates of its components itself. It then
// passes tls-cert-file with each, so a component ignores cert-dir. The releases 1.32.5 and 1.33.1 began with it.
func passesCertificates(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	isFirstOf33 := v.Minor() == 33 && v.Patch() == 0
	return !v.LessThan(semver.MustParse("1.32.5")) && !isFirstOf33
}
