package distro

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// component is a program that the stand-in runs.
type component struct {
	// program is the name of a program in drover-kube.
	program string
	args    []string
	// needsAPI components exit if they find no API server.
	needsAPI bool
	// needsNode components start when a node can run pods.
	needsNode bool
}

// Programs with a serving certificate of their own.
const (
	kubeControllerManager = "kube-controller-manager"
	kubeScheduler         = "kube-scheduler"
)

// apiComponents returns the components that run next to etcd on a server with this configuration, in start order.
// ownCertificates means that the distribution makes the certificates of all of them.
func apiComponents(l Layout, node Node, config Config, ownCertificates bool) []component {
	list := []component{apiServer(l, node, config)}
	if !config.DisableControllerManager {
		list = append(list, controllerManager(l, config, ownCertificates))
	}
	if !config.DisableScheduler {
		list = append(list, scheduler(l, config, ownCertificates))
	}
	return list
}

// makesCertificates reports whether a version makes the serving certificates of controller manager and scheduler. K3s
// does since 1.32.5 and 1.33.1. With RKE2, and before, the components make their own in cert-dir.
func makesCertificates(runtime Runtime, text string) bool {
	v, err := version.ParseSemantic(text)
	if err != nil || runtime != K3s {
		return false
	}
	return v.AtLeast(version.MustParseSemantic("1.32.5")) && (v.Minor() != 33 || v.Patch() > 0)
}

// servingArgs are the arguments for the serving certificate of a component that the distribution makes.
func servingArgs(l Layout, program string, ownCertificates bool) []string {
	if !ownCertificates {
		return nil
	}
	file := l.tls(servingCertificate(program))
	return []string{"--tls-cert-file=" + file + ".crt", "--tls-private-key-file=" + file + ".key"}
}

// servingCertificate is the path of that certificate in the folder of certificates, without a suffix.
func servingCertificate(program string) string { return program + "/" + program }

func etcd(l Layout, node Node, config Config, place seat) component {
	peer, state := peerURL(node), "new"
	if place.existing {
		state = "existing"
	}
	return component{program: "etcd", args: withUserArgs([]string{
		"--name=" + place.name,
		"--data-dir=" + l.etcdData(),
		"--initial-cluster=" + place.peers,
		"--initial-cluster-state=" + state,
		"--initial-advertise-peer-urls=" + peer,
		"--listen-peer-urls=" + peer,
		fmt.Sprintf("--listen-client-urls=https://127.0.0.1:%d,https://%s:%d", etcdClientPort, node.IP, etcdClientPort),
		fmt.Sprintf("--advertise-client-urls=https://%s:%d", node.IP, etcdClientPort),
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", etcdMetricsPort),
		"--cert-file=" + l.etcdTLS("server-client.crt"), "--key-file=" + l.etcdTLS("server-client.key"),
		"--trusted-ca-file=" + l.etcdTLS("server-ca.crt"), "--client-cert-auth",
		"--peer-cert-file=" + l.etcdTLS("peer-server-client.crt"), "--peer-key-file=" +
			l.etcdTLS("peer-server-client.key"),
		"--peer-trusted-ca-file=" + l.etcdTLS("peer-ca.crt"), "--peer-client-cert-auth",
		"--log-level=warn",
	}, config.EtcdArg)}
}

func apiServer(l Layout, node Node, config Config) component {
	advertise := config.AdvertiseAddress
	if advertise == "" {
		advertise = node.IP.String()
	}
	args := []string{
		"--advertise-address=" + advertise,
		"--allow-privileged=true",
		// Without it, a stopping server waits up to a minute for watches to end.
		"--shutdown-watch-termination-grace-period=1s",
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--client-ca-file=" + l.tls("client-ca.crt"),
		"--enable-admission-plugins=NodeRestriction",
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", etcdClientPort),
		"--etcd-cafile=" + l.etcdTLS("server-ca.crt"), "--etcd-certfile=" + l.etcdTLS("client.crt"), "--etcd-keyfile=" +
			l.etcdTLS("client.key"),
		"--kubelet-client-certificate=" + l.tls("client-kube-apiserver.crt"), "--kubelet-client-key=" +
			l.tls("client-kube-apiserver.key"),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--proxy-client-cert-file=" + l.tls("client-auth-proxy.crt"), "--proxy-client-key-file=" +
			l.tls("client-auth-proxy.key"),
		"--requestheader-allowed-names=system:auth-proxy",
		"--requestheader-client-ca-file=" + l.tls("request-header-ca.crt"),
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--secure-port=" + strconv.Itoa(l.serverAPIPort()),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.tls("service.key"),
		"--service-account-signing-key-file=" + l.tls("service.key"),
		"--service-cluster-ip-range=" + serviceCIDR(config),
		"--tls-cert-file=" + l.tls("serving-kube-apiserver.crt"), "--tls-private-key-file=" +
			l.tls("serving-kube-apiserver.key"),
	}
	if l.Runtime == K3s {
		args = append(args, "--bind-address=127.0.0.1")
	}
	if config.encrypts(l.Runtime) {
		args = append(args, "--encryption-provider-config="+l.encryptionConfig(),
			"--encryption-provider-config-automatic-reload=true")
	}
	return component{program: "kube-apiserver", args: withUserArgs(args, config.APIServerArg)}
}

func controllerManager(l Layout, config Config, ownCertificates bool) component {
	kubeconfig := l.cred("controller.kubeconfig")
	args := append(servingArgs(l, kubeControllerManager, ownCertificates),
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--kubeconfig="+
			kubeconfig,
		"--bind-address=127.0.0.1",
		"--cluster-signing-cert-file="+l.tls("client-ca.crt"), "--cluster-signing-key-file="+l.tls("client-ca.key"),
		"--controllers=*,-node-route-controller,-cloud-node-lifecycle-controller,-service-lb-controller",
		"--leader-elect-retry-period=1s", "--leader-elect-renew-deadline=5s", "--leader-elect-lease-duration=8s",
		"--profiling=false",
		"--root-ca-file="+l.tls("server-ca.crt"),
		"--service-account-private-key-file="+l.tls("service.key"),
		"--use-service-account-credentials=true")
	return component{
		program: kubeControllerManager, needsAPI: true, args: withUserArgs(args, config.ControllerManagerArg),
	}
}

func scheduler(l Layout, config Config, ownCertificates bool) component {
	kubeconfig := l.cred("scheduler.kubeconfig")
	args := append(servingArgs(l, kubeScheduler, ownCertificates),
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--kubeconfig="+
			kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect-retry-period=1s", "--leader-elect-renew-deadline=5s", "--leader-elect-lease-duration=8s",
		"--profiling=false")
	return component{
		program: kubeScheduler, needsAPI: true, needsNode: !config.DisableCloudController,
		args: withUserArgs(args, config.SchedulerArg),
	}
}

// withUserArgs adds "key=value" settings of the configuration. They replace the stand-in's arguments with the same key.
func withUserArgs(args []string, user []string) []string {
	for _, setting := range user {
		setting = strings.TrimPrefix(setting, "--")
		key, _, _ := strings.Cut(setting, "=")
		args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--"+key+"=") })
		args = append(args, "--"+setting)
	}
	return args
}

// etcdMemberName returns the name of this server's etcd member: the node's name and a random suffix. Like the real
// distributions, it stores the name in the data directory's file "name".
func etcdMemberName(l Layout, node Node) (string, error) {
	data, err := os.ReadFile(l.etcdMemberName())
	if err == nil {
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read etcd member name: %w", err)
	}
	name := newMemberName(node)
	return name, localfile.Write(l.etcdMemberName(), []byte(name))
}

func newMemberName(node Node) string {
	made := make([]byte, 4)
	_, _ = rand.Read(made) // never fails
	return node.Name + "-" + hex.EncodeToString(made)
}
