package clustercache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// listTimeout bounds the first list of a kind in a cache. Watches end earlier by themselves.
const listTimeout = 11 * time.Minute

// fillTimeout bounds the list of nodes, which controllers read as soon as a cluster is connected.
const fillTimeout = time.Minute

var errUnfilled = errors.New("cluster does not list its nodes")

// connection is the connection to a cluster that has answered.
type connection struct {
	config *rest.Config
	// ask checks that the API server answers. cached reads from cache, live does not.
	ask          func(ctx context.Context) error
	cached, live client.Client
	cache        ctrlcache.Cache
	end          func()
}

// dial connects to a cluster, which has to answer.
func (c *Cache) dial(ctx context.Context, name types.NamespacedName) (*connection, error) {
	config, err := c.opts.Door.RESTConfig(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find a connection: %w", err)
	}
	config.UserAgent, config.QPS, config.Burst, config.Timeout = c.opts.Client.UserAgent, c.opts.Client.QPS,
		c.opts.Client.Burst, c.opts.Client.Timeout
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make HTTP client: %w", err)
	}
	made := &connection{config: config}
	if err := c.establish(ctx, made, http); err != nil {
		utilnet.CloseIdleConnectionsFor(http.Transport) // each attempt may have its own transport
		return nil, err
	}
	return made, nil
}

// establish reads from the cluster what the connection needs.
func (c *Cache) establish(ctx context.Context, made *connection, http *http.Client) error {
	var err error
	if made.ask, err = asks(made.config, http); err != nil {
		return err
	}
	if err := made.ask(ctx); err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(made.config, http)
	if err != nil {
		return fmt.Errorf("make mapper of kinds: %w", err)
	}
	return c.fill(ctx, made, http, kinds{mapper})
}

// fill creates the clients of a connection, starts its cache, and waits until the cache has the nodes. A cache that has
// not started refuses reads. A watch on a cache that ends before it is filled would wait until the end of the term.
func (c *Cache) fill(ctx context.Context, made *connection, http *http.Client, mapper meta.RESTMapper) error { //nolint:contextcheck // its cache outlives the attempt
	live, err := client.New(made.config, client.Options{Scheme: c.scheme, Mapper: mapper, HTTPClient: http})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if made.cache, err = c.cacheOf(ctx, made.config, http, mapper); err != nil {
		return err
	}
	cached, err := client.New(made.config, client.Options{Scheme: c.scheme, Mapper: mapper, HTTPClient: http,
		Cache: &client.CacheOptions{
			Reader: made.cache, DisableFor: c.opts.Client.Cache.DisableFor, Unstructured: true,
		}})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	made.live, made.cached = limited{live, made.config.Timeout}, limited{cached, made.config.Timeout}
	running, end := context.WithCancel(c.lifetime)
	go func() { _ = made.cache.Start(running) }() // it returns no error once it is made
	made.end = end
	context.AfterFunc(running, func() { utilnet.CloseIdleConnectionsFor(http.Transport) }) //nolint:contextcheck // also when nobody ends it but the manager
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	if !made.cache.WaitForCacheSync(ctx) {
		made.close()
		return errUnfilled
	}
	return nil
}

// cacheOf creates a cache of a cluster without informers.
func (c *Cache) cacheOf(ctx context.Context, config *rest.Config, http *http.Client,
	mapper meta.RESTMapper) (ctrlcache.Cache, error) {
	slow, patient := rest.CopyConfig(config), *http // with the same transport, which ends with the connection
	slow.Timeout, patient.Timeout = listTimeout, listTimeout
	wanted := c.opts.Cache
	made, err := ctrlcache.New(slow, ctrlcache.Options{
		HTTPClient: &patient, Scheme: c.scheme, Mapper: mapper, SyncPeriod: wanted.SyncPeriod,
		DefaultTransform: wanted.DefaultTransform,
		ByObject:         wanted.ByObject,
	})
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	for _, index := range wanted.Indexes {
		if err := made.IndexField(ctx, index.Object, index.Field, index.ExtractValue); err != nil {
			return nil, fmt.Errorf("index %s: %w", index.Field, err)
		}
	}
	return made, nil
}

// asks returns a function that checks that the API server of a cluster answers.
func asks(config *rest.Config, http *http.Client) (func(ctx context.Context) error, error) {
	found, err := discovery.NewDiscoveryClientForConfigAndClient(config, http)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return func(ctx context.Context) error {
		if err := found.RESTClient().Get().AbsPath("/").Timeout(probeTimeout).Do(ctx).Error(); err != nil {
			return fmt.Errorf("cluster does not answer: %w", err)
		}
		return nil
	}, nil
}

// close ends the informers without waiting.
func (c *connection) close() {
	if c.end != nil {
		c.end()
	}
}

// limited is a client with a timeout for reads. A read from a cache would otherwise wait until the cluster can be
// listed.
type limited struct {
	client.Client
	timeout time.Duration
}

// Get implements client.Reader.
func (l limited) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.Client.Get(ctx, key, object, opts...)
}

// List implements client.Reader.
func (l limited) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.Client.List(ctx, list, opts...)
}
