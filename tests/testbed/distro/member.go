package distro

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// apiServersPrefix is the prefix of etcd keys under which each API server registers its address.
const apiServersPrefix = "/stand-in/apiservers/"

// members is a client of the cluster's etcd with a server's keys.
type members struct {
	layout Layout
	// endpoints are client URLs.
	endpoints []string
	// plain means that the endpoints use no encryption.
	plain bool
}

// localMembers uses this server's own port, which leads to its own member or to a balancer.
func localMembers(l Layout) members {
	return members{layout: l, endpoints: []string{fmt.Sprintf("https://127.0.0.1:%d", etcdClientPort)}}
}

// do calls question with a new client.
func (m members) do(ctx context.Context, question func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	config, err := m.config()
	if err != nil {
		return err
	}
	config.Context = ctx
	client, err := clientv3.New(config)
	if err != nil {
		return fmt.Errorf("reach etcd: %w", err)
	}
	defer func() { _ = client.Close() }() // the client is not used again
	return question(ctx, client)
}

// config returns the configuration of a client.
func (m members) config() (clientv3.Config, error) {
	config := clientv3.Config{Endpoints: m.endpoints, Logger: zap.NewNop()}
	if m.plain {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(m.layout.etcdTLS("client.crt"), m.layout.etcdTLS("client.key"))
	if err != nil {
		return config, fmt.Errorf("read etcd's client certificate: %w", err)
	}
	ca, err := os.ReadFile(m.layout.etcdTLS("server-ca.crt"))
	if err != nil {
		return config, fmt.Errorf("read etcd's authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	config.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}
	return config, nil
}

func (m members) list(ctx context.Context) (list []*etcdserverpb.Member, err error) {
	err = m.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		reply, err := client.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		list = reply.Members
		return nil
	})
	return list, err
}

// voters returns the client URLs of the voting members.
func (m members) voters(ctx context.Context) ([]string, error) {
	list, err := m.list(ctx)
	var urls []string
	for _, member := range list {
		if !member.IsLearner {
			urls = append(urls, member.ClientURLs...)
		}
	}
	return urls, err
}

// apiServers returns the API servers as HOST:PORT.
func (m members) apiServers(ctx context.Context) (servers []string, err error) {
	err = m.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		reply, err := client.Get(ctx, apiServersPrefix, clientv3.WithPrefix())
		if err != nil {
			return fmt.Errorf("list API servers: %w", err)
		}
		for _, pair := range reply.Kvs {
			servers = append(servers, string(pair.Value))
		}
		return nil
	})
	return servers, err
}

// announce registers the address of a node's API server.
func (m members) announce(ctx context.Context, node, address string) error {
	return m.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, apiServersPrefix+node, address)
		return err
	})
}

// remove removes the member with that name from the cluster's etcd, and the node's API server from the list. A missing
// member is no error.
func (m members) remove(ctx context.Context, node, name string) error {
	list, err := m.list(ctx)
	if err != nil {
		return err
	}
	return m.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if i := slices.IndexFunc(list, func(member *etcdserverpb.Member) bool { return member.Name == name }); i >= 0 {
			if _, err := client.MemberRemove(ctx, list[i].ID); err != nil &&
				!errors.Is(err, rpctypes.ErrMemberNotFound) {
				return fmt.Errorf("remove member %s: %w", name, err)
			}
		}
		_, err := client.Delete(ctx, apiServersPrefix+node)
		return err
	})
}

// seat is a server's membership in etcd.
type seat struct {
	name string
	// peers is etcd's initial cluster. existing means that the cluster exists already. etcd ignores both once it has
	// data.
	peers    string
	existing bool
	// learner is the ID of a member that does not vote yet, or 0.
	learner uint64
}

// votes reports whether this server's etcd has been a voter. From then on it can start without other servers.
func (l Layout) votes() bool {
	_, err := os.Stat(l.etcdVoter())
	return err == nil
}

// takeSeat finds or creates this server's membership. A server that starts a cluster is the first member. Every other
// server is added as a learner, which does not count for the quorum. takeSeat finds a learner that a killed process
// added before.
func takeSeat(ctx context.Context, l Layout, node Node, voters []string) (seat, error) {
	name, err := etcdMemberName(l, node)
	if err != nil {
		return seat{}, err
	}
	own := peerURL(node)
	if len(voters) == 0 {
		return seat{name: name, peers: name + "=" + own}, nil
	}
	asked := members{layout: l, endpoints: voters}
	place := seat{name: name, existing: true}
	var list []*etcdserverpb.Member
	list, err = asked.list(ctx)
	if err != nil {
		return seat{}, err
	}
	if !slices.ContainsFunc(list, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, own) }) {
		err = asked.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			reply, err := client.MemberAddAsLearner(ctx, []string{own})
			if err != nil {
				return fmt.Errorf("become a member: %w", err)
			}
			list = reply.Members
			return nil
		})
		if err != nil {
			return seat{}, err
		}
	}
	var peers []string
	for _, m := range list {
		called := m.Name
		switch {
		case slices.Contains(m.PeerURLs, own):
			called = name
			if m.IsLearner {
				place.learner = m.ID
			}
		case called == "":
			called = strconv.FormatUint(m.ID, 16) // added but not started yet: it has only an address
		}
		for _, peer := range m.PeerURLs {
			peers = append(peers, called+"="+peer)
		}
	}
	place.peers = strings.Join(peers, ",")
	return place, nil
}

// promote makes a learner a voter as soon as it has caught up. It returns false if ctx ends first.
func promote(ctx context.Context, l Layout, place seat, voters []string) (bool, error) {
	if place.learner == 0 {
		return true, nil
	}
	asked := members{layout: l, endpoints: voters}
	var fatal error
	done := poll(ctx, func() bool {
		err := asked.do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberPromote(ctx, place.learner)
			return err
		})
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			fatal = fmt.Errorf("become a voter: %w", err)
			return true
		}
		return err == nil || errors.Is(err, rpctypes.ErrMemberNotLearner)
	})
	return done, fatal
}

func peerURL(node Node) string { return fmt.Sprintf("https://%s:%d", node.IP, etcdPeerPort) }

// hostsOf returns the HOST:PORT of URLs.
func hostsOf(urls []string) []string {
	var hosts []string
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// readList reads a stored list. It returns nil if there is none.
func readList(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []string
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return list, nil
}

// keepList stores a list for the next start.
func keepList(path string, list []string) error {
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return localfile.Write(path, data)
}
