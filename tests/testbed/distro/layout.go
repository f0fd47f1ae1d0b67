package distro

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Ports of a node, as in the real distributions.
const (
	apiPort         = 6443
	innerAPIPort    = 6444 // the API server's own port behind K3s' shared port
	etcdClientPort  = 2379
	etcdPeerPort    = 2380
	etcdMetricsPort = 2381
	kubeletHealth   = 10248
	calicoHealth    = 9099
)

// Layout has the paths of a node's files. They match the real distributions, because probes and users expect them
// there.
type Layout struct {
	Runtime Runtime
	// Data is the data directory, /var/lib/rancher/<runtime> unless configured.
	Data string
	// Etc is the configuration directory, /etc/rancher/<runtime>.
	Etc string
}

// NewLayout returns the layout of a runtime with the setting data-dir, which may be empty.
func NewLayout(runtime Runtime, dataDir string) Layout {
	if dataDir == "" {
		dataDir = "/var/lib/rancher/" + string(runtime)
	}
	return Layout{Runtime: runtime, Data: dataDir, Etc: "/etc/rancher/" + string(runtime)}
}

func (l Layout) server(name string) string  { return filepath.Join(l.Data, "server", name) }
func (l Layout) tls(name string) string     { return filepath.Join(l.Data, "server/tls", name) }
func (l Layout) etcdTLS(name string) string { return filepath.Join(l.Data, "server/tls/etcd", name) }
func (l Layout) cred(name string) string    { return filepath.Join(l.Data, "server/cred", name) }
func (l Layout) agent(name string) string   { return filepath.Join(l.Data, "agent", name) }
func (l Layout) etcdData() string           { return filepath.Join(l.Data, "server/db/etcd") }
func (l Layout) etcdMemberName() string     { return filepath.Join(l.etcdData(), "name") }
func (l Layout) etcdVoter() string          { return filepath.Join(l.etcdData(), "voter") }
func (l Layout) voters() string             { return filepath.Join(l.Data, "server/db/voters.json") }
func (l Layout) apiServers() string         { return filepath.Join(l.Data, "agent/etc/api-servers.json") }
func (l Layout) log(name string) string     { return filepath.Join(l.Data, "server/logs", name+".log") }
func (l Layout) bin(name string) string     { return filepath.Join(l.Data, "bin", name) }
func (l Layout) manifests() string          { return filepath.Join(l.Data, "server/manifests") }
func (l Layout) adminKubeconfig() string    { return filepath.Join(l.Etc, string(l.Runtime)+".yaml") }
func (l Layout) serverAPIPort() int {
	if l.Runtime == K3s {
		return innerAPIPort
	}
	return apiPort
}

// Node is this machine's name and address in its cluster.
type Node struct {
	Name string
	IP   net.IP
}

// NewNode takes the name and address from the configuration, or else from the host.
func NewNode(config Config) (Node, error) {
	node := Node{Name: config.NodeName}
	if node.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return Node{}, fmt.Errorf("read host name: %w", err)
		}
		node.Name = name
	}
	if len(config.NodeIP) > 0 {
		if node.IP = net.ParseIP(config.NodeIP[0]); node.IP == nil {
			return Node{}, fmt.Errorf("node-ip %q is no IP address", config.NodeIP[0])
		}
		return node, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return Node{}, fmt.Errorf("read addresses: %w", err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			node.IP = ip.IP
			return node, nil
		}
	}
	return Node{}, errors.New("this host has no address; set node-ip")
}
