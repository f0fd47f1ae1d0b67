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

// Where an API server says which authorities the certificates of its users are from.
const (
	clientCAName = "extension-apiserver-authentication"
	clientCAKey  = "client-ca-file"
)

// reach fills in how users and agents reach clusters: which certificates of users count, and which replica this one is of how many. The function that
// it returns keeps both current until its context ends.
func (o *serverOptions) reach(config *rest.Config, certificate *tls.Config, log logrus.FieldLogger, options *server.Options) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the management cluster: %w", err)
	}
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController("drover", metav1.NamespaceSystem, clientCAName, clientCAKey, client)
	if err != nil {
		return nil, fmt.Errorf("follow the authorities of users' certificates: %w", err)
	}
	// Whoever has a certificate may show it; others have tokens.
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
		return nil, fmt.Errorf("make client of Leases: %w", err)
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

// pool is a set of authorities that is parsed when it has changed.
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
