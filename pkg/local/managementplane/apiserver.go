package managementplane

import (
	"encoding/json"
	"path/filepath"
	"time"
)

const (
	// serviceRange is the address range of Services. serviceAddress is the address of the Service "kubernetes".
	serviceRange   = "10.43.0.0/16"
	serviceAddress = "10.43.0.1"
	clusterDomain  = "cluster.local"
	// auditFile is below DIR/logs.
	auditFile = "audit.log"
)

// auditPolicy records the user of each write, and all requests of some users. It records no contents, because the log
// may contain no Secret.
func auditPolicy(users []string) []byte {
	rules := `- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - group: authorization.k8s.io
  - group: authentication.k8s.io
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`
	if len(users) > 0 {
		quoted, _ := json.Marshal(users) // a list of strings can always be encoded
		rules = "- level: Metadata\n  users: " + string(quoted) + "\n" + rules
	}
	return []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n" + rules)
}

// apiServer describes kube-apiserver with RBAC and node authorization.
//
// The endpoint reconciler is off, because it rejects loopback addresses. The process kubelet gives every pod the real
// address of the API.
func apiServer(s settings) Component {
	c := s.certs
	args := []string{
		"--bind-address=" + s.BindAddress,
		"--advertise-address=" + s.BindAddress,
		"--secure-port=" + portString(s.ports.APIServer),
		"--tls-cert-file=" + c.apiServer.CertFile,
		"--tls-private-key-file=" + c.apiServer.KeyFile,
		"--client-ca-file=" + c.clusterCA.CertFile,
		"--etcd-servers=https://" + hostPort(loopback, s.ports.Etcd),
		"--etcd-cafile=" + c.etcdCA.CertFile,
		"--etcd-certfile=" + c.apiServerToEtcd.CertFile,
		"--etcd-keyfile=" + c.apiServerToEtcd.KeyFile,
		"--kubelet-certificate-authority=" + c.clusterCA.CertFile,
		"--kubelet-client-certificate=" + c.apiServerToKubelet.CertFile,
		"--kubelet-client-key=" + c.apiServerToKubelet.KeyFile,
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + c.serviceAccountPublic,
		"--service-account-signing-key-file=" + c.serviceAccountKey,
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--endpoint-reconciler-type=none",
		"--anonymous-auth=false",
		"--profiling=false",
		// Without this flag, a stopping server waits up to a minute for all watches to end.
		"--shutdown-watch-termination-grace-period=1s",
		"--cert-dir=" + s.runFile("apiserver"),
	}
	var files []File
	if s.AuditLog {
		policy := s.runFile("audit-policy.yaml")
		files = append(files, File{Path: policy, Content: auditPolicy(s.AuditUsers)})
		args = append(args,
			"--audit-policy-file="+policy,
			"--audit-log-path="+filepath.Join(s.Dir, "logs", auditFile),
			"--audit-log-mode=blocking",
			"--audit-log-maxsize=1024",
		)
	}
	return Component{
		Name:  apiServerName,
		Args:  withFeatureGates(append(args, s.APIServerArgs...), s),
		Files: files,
		Ready: ReadyCheck{URL: s.apiURL() + "/readyz", CAFile: c.clusterCA.CertFile, Client: c.admin},
		Grace: 10 * time.Second,
	}
}

func withFeatureGates(args []string, s settings) []string {
	if s.FeatureGates == "" {
		return args
	}
	return append(args, "--feature-gates="+s.FeatureGates)
}
