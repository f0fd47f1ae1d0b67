package distro

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// serverCA and clientCA sign the server and client certificates of the API server and the kubelets.
func serverCA(l Layout) (*pki.Authority, error) {
	return pki.OpenAuthority(l.tls(""), "server-ca", time.Now)
}
func clientCA(l Layout) (*pki.Authority, error) {
	return pki.OpenAuthority(l.tls(""), "client-ca", time.Now)
}

// ensureComponentCerts makes the serving certificates of controller manager and scheduler.
func ensureComponentCerts(l Layout) error {
	ca, err := serverCA(l)
	if err != nil {
		return err
	}
	for _, program := range []string{kubeControllerManager, kubeScheduler} {
		if _, err := ca.Serving(servingCertificate(program), "localhost", "127.0.0.1", "::1"); err != nil {
			return err
		}
	}
	return nil
}

// ensureServerCerts makes a server's certificates, with the names and paths of the real distributions.
func ensureServerCerts(l Layout, node Node, config Config) error {
	service, err := firstServiceIP(config)
	if err != nil {
		return err
	}
	local := []string{"localhost", "127.0.0.1", "::1", node.Name, node.IP.String()}
	api := append([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", service}, local...)
	api = append(append(api, config.TLSSAN...), config.NodeExternalIP...)
	for _, authority := range []struct {
		dir, name string
		issue     func(*pki.Authority) error
	}{
		{l.tls(""), "server-ca", func(ca *pki.Authority) error {
			if _, err := ca.Serving("serving-kube-apiserver", api...); err != nil {
				return err
			}
			// The supervisor's certificate: the real distributions use this name for a file and a Secret.
			_, err := ca.Serving("dynamic-cert", api...)
			return err
		}},
		{l.tls(""), "client-ca", func(ca *pki.Authority) error { return issueClients(ca, l.Runtime) }},
		{l.tls(""), "request-header-ca", func(ca *pki.Authority) error {
			_, err := ca.Client("client-auth-proxy", "system:auth-proxy")
			return err
		}},
		{l.etcdTLS(""), "server-ca", func(ca *pki.Authority) error {
			if _, err := ca.Serving("server-client", local...); err != nil {
				return err
			}
			_, err := ca.Client("client", "etcd-client")
			return err
		}},
		{l.etcdTLS(""), "peer-ca", func(ca *pki.Authority) error {
			_, err := ca.Serving("peer-server-client", local...)
			return err
		}},
	} {
		ca, err := pki.OpenAuthority(authority.dir, authority.name, time.Now)
		if err != nil {
			return err
		}
		if err := authority.issue(ca); err != nil {
			return err
		}
	}
	_, _, err = pki.SigningKey(l.tls(""), "service")
	return err
}

func issueClients(ca *pki.Authority, runtime Runtime) error {
	for _, client := range []struct {
		file, user string
		groups     []string
	}{
		{"client-kube-apiserver", "system:apiserver", []string{"system:masters"}},
		{"client-admin", "system:admin", []string{"system:masters"}},
		{"client-supervisor", "system:" + string(runtime) + "-supervisor", []string{"system:masters"}},
		{"client-controller", "system:kube-controller-manager", nil},
		{"client-scheduler", "system:kube-scheduler", nil},
		{"client-" + string(runtime) + "-cloud-controller", string(runtime) + "-cloud-controller-manager", nil},
	} {
		if _, err := ca.Client(client.file, client.user, client.groups...); err != nil {
			return err
		}
	}
	return nil
}

// nodeFiles are a node's certificates and trusted authorities, by their file names in the agent's folder.
type nodeFiles map[string][]byte

// issuing is held while a node's certificates are files on the server, because the node may send two requests at the
// same time.
var issuing sync.Mutex

// issueNode signs new certificates for a node. The server does not keep them.
func issueNode(l Layout, node Node) (nodeFiles, error) {
	issuing.Lock()
	defer issuing.Unlock()
	server, err := serverCA(l)
	if err != nil {
		return nil, err
	}
	client, err := clientCA(l)
	if err != nil {
		return nil, err
	}
	files := nodeFiles{"server-ca.crt": server.CertPEM, "client-ca.crt": client.CertPEM}
	controller := "client-" + string(l.Runtime) + "-controller"
	for name, issue := range map[string]func(file string) (pki.Pair, error){
		"client-kubelet": func(file string) (pki.Pair, error) {
			return client.Client(file, "system:node:"+node.Name, "system:nodes")
		},
		"serving-kubelet": func(file string) (pki.Pair, error) {
			return server.Serving(file, node.Name, node.IP.String(), "127.0.0.1")
		},
		"client-kube-proxy": func(file string) (pki.Pair, error) { return client.Client(file, "system:kube-proxy") },
		controller: func(file string) (pki.Pair, error) {
			return client.Client(file, "system:"+string(l.Runtime)+"-controller")
		},
	} {
		if err := files.issue(l, name, "node-"+node.Name+"-"+name, issue); err != nil {
			return nil, fmt.Errorf("certificate %s of node %s: %w", name, node.Name, err)
		}
	}
	return files, nil
}

// issue adds a new certificate that an authority writes to a file on the server.
func (f nodeFiles) issue(l Layout, name, file string, issue func(string) (pki.Pair, error)) error {
	forget := func() error { return errors.Join(os.RemoveAll(l.tls(file+".crt")), os.RemoveAll(l.tls(file+".key"))) }
	if err := forget(); err != nil {
		return err
	}
	pair, err := issue(file)
	if err != nil {
		return err
	}
	certificate, certErr := os.ReadFile(pair.CertFile)
	key, keyErr := os.ReadFile(pair.KeyFile)
	f[name+".crt"], f[name+".key"] = certificate, key
	return errors.Join(certErr, keyErr, forget())
}

// write writes a node's files where its kubelet reads them.
func (f nodeFiles) write(l Layout) error {
	for name, data := range f {
		if err := localfile.Write(l.agent(name), data); err != nil {
			return err
		}
	}
	return nil
}

func firstServiceIP(config Config) (string, error) {
	cidr := serviceCIDR(config)
	_, network, err := net.ParseCIDR(cidr)
	if err != nil {
		return "", fmt.Errorf("service-cidr %q: %w", cidr, err)
	}
	ip := network.IP
	ip[len(ip)-1]++
	return ip.String(), nil
}

func serviceCIDR(config Config) string {
	if len(config.ServiceCIDR) > 0 {
		return config.ServiceCIDR[0]
	}
	return "10.43.0.0/16"
}
