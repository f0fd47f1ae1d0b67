package cmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/server"
)

// The ConfigMap in which an API server publishes the authorities of its users' certificates.
const (
	clientCAName = "extension-apiserver-authentication"
	clientCAKey  = "client-ca-file"
)

// reach fills in the options for users' and agents' access to clusters: the authorities of users' certificates, this
// replica's name and the number of replicas. The returned function keeps them current until its context ends.
func (o *serverOptions) reach(config *rest.Config, certificate *tls.Config, log logrus.FieldLogger,
	options *server.Options) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the management cluster: %w", err)
	}
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController("drover", metav1.NamespaceSystem,
		clientCAName, clientCAKey, client)
	if err != nil {
		return nil, fmt.Errorf("watch the authorities of users' certificates: %w", err)
	}
	// Client certificates are optional, because other users have tokens.
	certificate.ClientAuth = tls.RequestClientCert
	options.Reach.ClientCA = (&pool{current: authority.CurrentCABundleContent}).get
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read host name: %w", err)
	}
	options.Reach.Replica = host + "_" + uuid.NewString()
	if o.embedded || !o.leaderElect {
		return func(ctx context.Context) { authority.Run(ctx, 1) }, nil
	}
	leases, err := kubernetes.NewForConfig(leaseConfig(config))
	if err != nil {
		return nil, fmt.Errorf("create the client for Leases: %w", err)
	}
	counted := newReplicas(leases.CoordinationV1().Leases(leaseNamespace), uuid.NewString(), o.instanceID, log)
	options.Reach.Replicas = counted.count
	return func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { authority.Run(ctx, 1) })
		running.Go(func() { counted.run(ctx) })
		running.Wait()
	}, nil
}

// pool parses a set of authorities whenever it has changed.
type pool struct {
	current func() []byte

	mu   sync.Mutex
	of   string
	pool *x509.CertPool
}

func (p *pool) get() *x509.CertPool {
	content := string(p.current())
	p.mu.Lock()
	defer p.mu.Unlock()
	if content == "" {
		return nil
	}
	if content != p.of {
		p.pool, p.of = x509.NewCertPool(), content
		p.pool.AppendCertsFromPEM([]byte(content))
	}
	return p.pool
}
