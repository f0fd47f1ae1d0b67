package managementplane

import (
	"path/filepath"
	"time"
)

// etcd describes a single-member etcd on loopback. It has its own certificate authority, so that clients of the
// Kubernetes API cannot read Secrets directly from etcd.
func etcd(s settings) Component {
	client := "https://" + hostPort(loopback, s.ports.Etcd)
	peer := "https://" + hostPort(loopback, s.ports.EtcdPeer)
	return Component{
		Name: etcdName,
		Args: []string{
			"--name=drover",
			"--data-dir=" + filepath.Join(s.Dir, "etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=drover=" + peer,
			"--cert-file=" + s.certs.etcd.CertFile,
			"--key-file=" + s.certs.etcd.KeyFile,
			"--client-cert-auth",
			"--trusted-ca-file=" + s.certs.etcdCA.CertFile,
			"--peer-cert-file=" + s.certs.etcd.CertFile,
			"--peer-key-file=" + s.certs.etcd.KeyFile,
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + s.certs.etcdCA.CertFile,
			"--auto-compaction-mode=periodic",
			"--auto-compaction-retention=1h",
			"--logger=zap",
			"--log-level=warn",
		},
		Ready: ReadyCheck{URL: client + "/readyz", CAFile: s.certs.etcdCA.CertFile, Client: s.certs.apiServerToEtcd},
		Grace: 10 * time.Second,
	}
}
