package managementplane

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// apiServerToKubeletUser is the only client that the kubelet accepts.
const apiServerToKubeletUser = "kube-apiserver-kubelet-client"

// makeCertificates opens or makes everything in DIR/pki. etcd has its own authority.
func makeCertificates(config Config) (certificates, error) {
	var c certificates
	dir := filepath.Join(config.Dir, "pki")
	cluster, err := pki.OpenAuthority(dir, "ca", time.Now)
	if err != nil {
		return c, err
	}
	members, err := pki.OpenAuthority(filepath.Join(dir, "etcd"), "ca", time.Now)
	if err != nil {
		return c, err
	}
	c.clusterCA, c.etcdCA = cluster.Pair, members.Pair
	if c.serviceAccountKey, c.serviceAccountPublic, err = pki.SigningKey(dir, "service-account"); err != nil {
		return c, err
	}

	apiNames := append([]string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." +
			clusterDomain,
		loopback, "::1", serviceAddress, config.BindAddress,
	}, config.ServingNames...)
	serving := []struct {
		into      *pki.Pair
		authority *pki.Authority
		name      string
		hosts     []string
	}{
		{&c.apiServer, cluster, "kube-apiserver", apiNames},
		{&c.controllerManagerServing, cluster, "kube-controller-manager", []string{"localhost", loopback}},
		{&c.schedulerServing, cluster, "kube-scheduler", []string{"localhost", loopback}},
		{&c.kubeletServing, cluster, "kubelet-serving",
			[]string{config.NodeName, "localhost", loopback, config.BindAddress}},
		{&c.etcd, members, "etcd", []string{"localhost", loopback}},
	}
	for _, want := range serving {
		if *want.into, err = want.authority.Serving(want.name, want.hosts...); err != nil {
			return c, err
		}
	}
	clients := []struct {
		into             *pki.Pair
		authority        *pki.Authority
		name, user, from string
	}{
		{&c.admin, cluster, "admin", "drover-admin", "system:masters"},
		{&c.controllerManager, cluster, "controller-manager-client", "system:kube-controller-manager", ""},
		{&c.scheduler, cluster, "scheduler-client", "system:kube-scheduler", ""},
		{&c.kubelet, cluster, "kubelet-client", "system:node:" + config.NodeName, "system:nodes"},
		{&c.apiServerToKubelet, cluster, "apiserver-kubelet-client", apiServerToKubeletUser, ""},
		{&c.apiServerToEtcd, members, "apiserver-etcd-client", "kube-apiserver", ""},
	}
	for _, want := range clients {
		var groups []string
		if want.from != "" {
			groups = []string{want.from}
		}
		if *want.into, err = want.authority.Client(want.name, want.user, groups...); err != nil {
			return c, err
		}
	}
	return c, nil
}

// adminKubeconfig embeds its certificates, because users copy it.
func adminKubeconfig(s settings) ([]byte, error) {
	read := map[string][]byte{}
	for _, path := range []string{s.certs.clusterCA.CertFile, s.certs.admin.CertFile, s.certs.admin.KeyFile} {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read certificate for kubeconfig: %w", err)
		}
		read[path] = content
	}
	return kubeconfig(kubeconfigInput{
		server:  s.apiURL(),
		cluster: map[string]any{"certificate-authority-data": read[s.certs.clusterCA.CertFile]},
		user: map[string]any{
			"client-certificate-data": read[s.certs.admin.CertFile],
			"client-key-data":         read[s.certs.admin.KeyFile],
		},
	}), nil
}

// choosePorts sets the zero ports of wanted. It prefers the port in the file if that is free, and otherwise takes any
// free port. It stores the choice, so that a restarted plane keeps its ports.
func choosePorts(wanted Ports, bindAddress, file string) (Ports, error) {
	var last Ports
	if content, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(content, &last) // a damaged file only means other ports
	}
	out := wanted
	taken := map[int]bool{}
	for _, port := range []struct {
		into    *int
		last    int
		address string
	}{
		{&out.Etcd, last.Etcd, loopback},
		{&out.EtcdPeer, last.EtcdPeer, loopback},
		{&out.APIServer, last.APIServer, bindAddress},
		{&out.ControllerManager, last.ControllerManager, loopback},
		{&out.Scheduler, last.Scheduler, loopback},
		{&out.Kubelet, last.Kubelet, bindAddress},
		{&out.KubeletHealth, last.KubeletHealth, loopback},
	} {
		if *port.into != 0 {
			taken[*port.into] = true
			continue
		}
		free, err := freePort(port.address, port.last, taken)
		if err != nil {
			return out, err
		}
		*port.into, taken[free] = free, true
	}
	content, err := json.Marshal(out)
	if err != nil {
		return out, fmt.Errorf("record ports: %w", err)
	}
	return out, localfile.Write(file, content)
}

// Free ports are below the kernel's range for outgoing connections, so that a port stays free until its component
// listens on it.
const (
	firstFreePort = 20000
	freePorts     = 12000
)

func freePort(address string, preferred int, taken map[int]bool) (int, error) {
	candidate := preferred
	for range 500 {
		if candidate != 0 && !taken[candidate] {
			if listener, err := net.Listen("tcp", hostPort(address, candidate)); err == nil { //nolint:noctx // closed at once
				listener.Close()
				return candidate, nil
			}
		}
		offset, err := rand.Int(rand.Reader, big.NewInt(freePorts))
		if err != nil {
			return 0, fmt.Errorf("choose port: %w", err)
		}
		candidate = firstFreePort + int(offset.Int64())
	}
	return 0, fmt.Errorf("no free port on %s between %d and %d", address, firstFreePort, firstFreePort+freePorts)
}

// freePortTaken reports whether a component failed because another process listens on a port that choosePorts found
// free. Other ports help then, unless the configuration fixes the port.
func freePortTaken(err error, fixed Ports) bool {
	message := err.Error()
	if !strings.Contains(message, "address already in use") {
		return false
	}
	for _, port := range []int{
		fixed.Etcd, fixed.EtcdPeer, fixed.APIServer, fixed.ControllerManager, fixed.Scheduler, fixed.Kubelet,
		fixed.KubeletHealth,
	} {
		if port != 0 && strings.Contains(message, ":"+portString(port)+":") {
			return false
		}
	}
	return true
}
