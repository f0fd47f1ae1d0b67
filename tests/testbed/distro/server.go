package distro

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// RunServer runs a server until ctx or one of its components ends.
func RunServer(ctx context.Context, options Options) error {
	r, err := newRun(options)
	if err != nil {
		return err
	}
	if r.config, err = r.Flags.apply(r.config); err != nil {
		return err
	}
	if r.Flags.ClusterReset {
		return r.clusterReset(ctx, r.Flags.RestorePath)
	}
	if err := r.afterReset(); err != nil {
		return err
	}
	if err := r.recoverBootstrap(ctx); err != nil {
		return err
	}
	voters, err := r.voters(ctx)
	if err != nil {
		return err
	}
	if err := r.prepareServer(); err != nil {
		return err
	}
	client, err := r.adminClient()
	if err != nil {
		return err
	}
	r.encryption = r.newSecretsEncryption(client)
	s := &server{run: r, client: client, voting: make(chan struct{}), etcd: &balancer{}, api: &balancer{}}
	if r.config.DisableEtcd {
		err = s.withoutEtcd(ctx, voters)
	} else {
		err = s.withEtcd(ctx, voters)
	}
	if err != nil {
		return err
	}
	if r.config.DisableAPIServer {
		err = s.withoutAPI(ctx)
	} else {
		s.withAPI()
	}
	if err != nil {
		return err
	}
	snapshots := r.newSnapshotter(client)
	s.tasks = append(s.tasks, func(ctx context.Context) error { return r.supervise(ctx, snapshots) }, r.serveCalico)
	if !r.config.DisableEtcd {
		s.tasks = append(s.tasks, onceServed(client, snapshots.followFiles))
	}
	return upon(ctx, s.base, s.tasks)
}

// voters returns the client URLs of the cluster's etcd that this server needs to start. It returns none if the server
// starts the cluster or if its own etcd already votes. A former voter starts without the others. A new server, or one
// without certificates, requests the cluster's keys.
func (r *run) voters(ctx context.Context) ([]string, error) {
	if r.config.Server == "" {
		return nil, nil
	}
	if lacks, err := r.layout.lacksBootstrap(); err != nil {
		return nil, err
	} else if lacks {
		return joiner{r.layout, r.node, r.config, r.Log}.asServer(ctx)
	}
	if r.config.DisableEtcd {
		if kept, err := readList(r.layout.voters()); len(kept) > 0 || err != nil {
			return kept, err
		}
	} else if r.layout.votes() {
		return nil, nil
	}
	return joiner{r.layout, r.node, r.config, r.Log}.asServer(ctx)
}

// prepareServer writes certificates and kubeconfigs.
func (r *run) prepareServer() error {
	if err := localfile.Write(r.layout.server("token"), []byte(r.config.Token)); err != nil {
		return err
	}
	if err := ensureServerCerts(r.layout, r.node, r.config); err != nil {
		return err
	}
	if !r.config.DisableAPIServer && makesCertificates(r.Runtime, r.Version) {
		if err := ensureComponentCerts(r.layout); err != nil {
			return err
		}
	}
	files, err := issueNode(r.layout, r.node)
	if err != nil {
		return err
	}
	if err := files.write(r.layout); err != nil {
		return err
	}
	return writeServerKubeconfigs(r.layout)
}

// server collects the tasks of one server.
type server struct {
	*run
	client kubernetes.Interface
	// base is etcd, which all other tasks need until they end. It is nil where etcd is on other servers.
	base   task
	tasks  []task
	member string
	// voting is closed once the cluster's etcd is readable through this server's port.
	voting chan struct{}
	// etcd and api are balancers for components on other servers.
	etcd, api *balancer
}

// withEtcd runs a member of the cluster's etcd.
func (s *server) withEtcd(ctx context.Context, voters []string) error {
	var place seat
	var err error
	last := ""
	joined := poll(ctx, func() bool {
		if place, err = takeSeat(ctx, s.layout, s.node, voters); err != nil && err.Error() != last {
			last = err.Error() // another server may be joining, and etcd allows one learner at a time
			fmt.Fprintf(s.Log, "waiting for a place in etcd: %v\n", err)
		}
		return err == nil
	})
	if !joined {
		return ctx.Err()
	}
	s.member = place.name
	s.base = s.program(etcd(s.layout, s.node, s.config, place))
	s.tasks = append(s.tasks, func(ctx context.Context) error {
		if done, err := promote(ctx, s.layout, place, voters); !done || err != nil {
			return err
		}
		own := localMembers(s.layout)
		if !poll(ctx, func() bool { _, err := own.list(ctx); return err == nil }) {
			return nil
		}
		if err := s.shareBootstrap(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if err := localfile.Write(s.layout.etcdVoter(), nil); err != nil {
			return err
		}
		close(s.voting)
		return nil
	})
	return nil
}

// withoutEtcd forwards this server's etcd port to the members on other servers.
func (s *server) withoutEtcd(ctx context.Context, voters []string) error {
	s.etcd.set(hostsOf(voters))
	listener, err := listenOwn(ctx, etcdClientPort)
	if err != nil {
		return err
	}
	s.tasks = append(s.tasks,
		func(ctx context.Context) error { return s.etcd.serve(ctx, listener) },
		func(ctx context.Context) error {
			own := localMembers(s.layout)
			first := true
			return every(ctx, 2*time.Second, func() error {
				now, err := own.voters(ctx)
				if err != nil {
					return nil //nolint:nilerr // none answers now, and the next look finds one
				}
				s.etcd.set(hostsOf(now))
				if first {
					if err := s.shareBootstrap(ctx); err != nil || ctx.Err() != nil {
						return err
					}
					first = false
					close(s.voting)
				}
				return keepChanged(s.layout.voters(), now)
			})
		})
	return nil
}

// withAPI runs an API server and the components that need it.
func (s *server) withAPI() {
	api := fmt.Sprintf("https://127.0.0.1:%d", s.layout.serverAPIPort())
	for _, c := range apiComponents(s.layout, s.node, s.config, makesCertificates(s.Runtime, s.Version)) {
		switch {
		case c.needsNode:
			s.tasks = append(s.tasks, onceServed(s.client, onceUntainted(s.client, s.program(c))))
		case c.needsAPI:
			s.tasks = append(s.tasks, onceServed(s.client, s.program(c)))
		default:
			s.tasks = append(s.tasks, s.onceVoting(s.encryption.known(s.program(c))))
		}
	}
	if s.encryption != nil {
		s.tasks = append(s.tasks, s.encryption.reencryptOnRequest)
	}
	s.tasks = append(s.tasks,
		onceServed(s.client, s.kubelet(api)),
		onceServed(s.client, s.deploy),
		onceServed(s.client, s.installDefinition),
		onceServed(s.client, func(ctx context.Context) error { return s.removeMembers(ctx, s.client) }),
		onceServed(s.client, func(ctx context.Context) error {
			s.Ready()
			address := net.JoinHostPort(s.node.IP.String(), strconv.Itoa(apiPort))
			own := localMembers(s.layout)
			_ = poll(ctx, func() bool { return own.announce(ctx, s.node.Name, address) == nil })
			return s.labelRoles(ctx, s.client, s.member)
		}))
}

// withoutAPI forwards this server's API port to the API servers on other servers. Until one exists, only etcd runs.
func (s *server) withoutAPI(ctx context.Context) error {
	listener, err := listenOwn(ctx, s.layout.serverAPIPort())
	if err != nil {
		return err
	}
	own := localMembers(s.layout)
	s.tasks = append(s.tasks,
		func(ctx context.Context) error { return s.api.serve(ctx, listener) },
		s.onceVoting(func(ctx context.Context) error {
			s.Ready()
			return every(ctx, 2*time.Second, func() error {
				if found, err := own.apiServers(ctx); err == nil {
					s.api.set(found)
				}
				return nil
			})
		}),
		s.kubeletWithoutAPI,
		onceServed(s.client, func(ctx context.Context) error { return s.labelRoles(ctx, s.client, s.member) }))
	return nil
}

// kubeletWithoutAPI runs the kubelet of a server without an API server. K3s starts it when an API server answers. With
// RKE2 the kubelet runs etcd and is healthy from the start: until an API server answers, this serves its health port.
func (s *server) kubeletWithoutAPI(ctx context.Context) error {
	kubelet := s.kubelet(fmt.Sprintf("https://127.0.0.1:%d", s.layout.serverAPIPort()))
	if s.Runtime == K3s {
		return onceServed(s.client, kubelet)(ctx)
	}
	health := &http.Server{
		Addr: fmt.Sprintf("127.0.0.1:%d", kubeletHealth), ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }),
	}
	ended := make(chan error, 1)
	go func() { ended <- health.ListenAndServe() }()
	waited := onceServed(s.client, func(context.Context) error { return nil })(ctx)
	_ = health.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the node's health: %w", err)
	}
	if waited != nil || ctx.Err() != nil {
		return waited
	}
	return kubelet(ctx)
}

// onceVoting delays a task until etcd is readable through this server's port.
func (s *server) onceVoting(t task) task {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.voting:
			return t(ctx)
		}
	}
}

// every calls do at intervals until ctx ends or do fails.
func every(ctx context.Context, interval time.Duration, do func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := do(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// keepChanged stores a list if it differs from the stored one.
func keepChanged(path string, list []string) error {
	kept, err := readList(path)
	if err != nil || slices.Equal(kept, list) {
		return err
	}
	return keepList(path, list)
}
