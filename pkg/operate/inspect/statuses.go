package inspect

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/status"
)

// StatusOptions choose clusters.
type StatusOptions struct {
	// Config reaches the management cluster with the permissions of the user.
	Config *rest.Config
	// Version of the program, for the user agent.
	Version string
	// Namespace of the clusters; empty means all namespaces.
	Namespace string
	// Name of the cluster; empty means all clusters of the namespace.
	Name string
}

// Statuses reads the rows of clusters and machines.
type Statuses struct {
	opts     StatusOptions
	clusters resourceClient
	machines resourceClient
}

// Rows are what Statuses has read.
type Rows struct {
	Clusters []status.Cluster
	Machines []status.Machine
	// MachinesUnread says why machines are unknown. It is empty if they are known.
	MachinesUnread string
}

// NewStatuses returns a Statuses. It makes no API call.
func NewStatuses(o StatusOptions) (*Statuses, error) {
	kinds, err := clients.NewTyped()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(o.Config)
	config.UserAgent = "drover/" + o.Version
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	s := &Statuses{opts: o}
	for _, kind := range []struct {
		client  *resourceClient
		version schema.GroupVersion
		name    string
		list    func() runtime.Object
		options metav1.ListOptions
	}{
		{&s.clusters, provv1.SchemeGroupVersion, "clusters", func() runtime.Object { return &provv1.ClusterList{} },
			s.clusterOptions()},
		{&s.machines, clusterv1.GroupVersion, "machines", func() runtime.Object { return &clusterv1.MachineList{} },
			s.machineOptions()},
	} {
		client, err := kinds.Client(config, kind.version)
		if err != nil {
			return nil, err
		}
		*kind.client = resourceClient{client, kind.name, o.Namespace, kind.list, kind.options}
	}
	return s, nil
}

func (s *Statuses) clusterOptions() metav1.ListOptions {
	if s.opts.Name == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, s.opts.Name).String()}
}

func (s *Statuses) machineOptions() metav1.ListOptions {
	if s.opts.Name == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{LabelSelector: labels.Set{clusterv1.ClusterNameLabel: s.opts.Name}.String()}
}

// resourceClient reads the chosen objects of one kind.
type resourceClient struct {
	rest.Interface
	name, namespace string
	newList         func() runtime.Object
	choice          metav1.ListOptions
}

func (c *resourceClient) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector, o.LabelSelector = c.choice.FieldSelector, c.choice.LabelSelector
	out := c.newList()
	err := c.Get().Namespace(c.namespace).Resource(c.name).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *resourceClient) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.FieldSelector, o.LabelSelector, o.Watch = c.choice.FieldSelector, c.choice.LabelSelector, true
	return c.Get().Namespace(c.namespace).Resource(c.name).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
}

// each calls visit for each object, and reads them page by page.
func (c *resourceClient) each(ctx context.Context, visit func(runtime.Object) error) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.list(ctx, o)
	})
	return pages.EachListItem(ctx, metav1.ListOptions{}, visit)
}

// Read reads all rows once. It is an error if the named cluster does not exist.
func (s *Statuses) Read(ctx context.Context) (Rows, error) {
	var rows Rows
	err := s.clusters.each(ctx, func(object runtime.Object) error {
		if cluster, ok := object.(*provv1.Cluster); ok {
			rows.Clusters = append(rows.Clusters, status.OfCluster(cluster))
		}
		return nil
	})
	if err != nil {
		return rows, s.unread(err)
	}
	if s.opts.Name != "" && len(rows.Clusters) == 0 {
		return rows, s.absent()
	}
	err = s.machines.each(ctx, func(object runtime.Object) error {
		if machine, ok := object.(*clusterv1.Machine); ok {
			rows.Machines = append(rows.Machines, status.OfMachine(machine))
		}
		return nil
	})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		rows.Machines, rows.MachinesUnread = nil, machinesUnread(err)
		return rows, nil
	}
	if err != nil {
		return rows, fmt.Errorf("list machines: %w", err)
	}
	return rows, nil
}

func machinesUnread(err error) string { return "machines are unknown: " + err.Error() }

func (s *Statuses) absent() error {
	return absentError{apierrors.NewNotFound(provv1.SchemeGroupVersion.WithResource("clusters").GroupResource(),
		s.opts.Name), s.opts.Namespace, s.opts.Name}
}

func (s *Statuses) unread(err error) error {
	switch {
	case s.opts.Name != "":
		return fmt.Errorf("read Cluster %s/%s: %w", s.opts.Namespace, s.opts.Name, err)
	case s.opts.Namespace == "":
		return fmt.Errorf("list clusters of all namespaces; -n names one: %w", err)
	}
	return fmt.Errorf("list clusters of %s: %w", s.opts.Namespace, err)
}

// rowStore keeps the rows of one kind. A reflector writes to it.
type rowStore[R any] struct {
	mu      *sync.Mutex
	rows    map[string]R
	listed  bool
	rowOf   func(object any) (R, bool)
	changed func()
}

// set adds or replaces the row of an object.
func (s *rowStore[R]) set(object any) error {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return err
	}
	row, ok := s.rowOf(object)
	if !ok {
		return fmt.Errorf("unexpected object %T", object)
	}
	s.mu.Lock()
	s.rows[key] = row
	s.mu.Unlock()
	s.changed()
	return nil
}

// Add implements cache.ReflectorStore.
func (s *rowStore[R]) Add(object any) error { return s.set(object) }

// Update implements cache.ReflectorStore.
func (s *rowStore[R]) Update(object any) error { return s.set(object) }

// Delete implements cache.ReflectorStore.
func (s *rowStore[R]) Delete(object any) error {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.rows, key)
	s.mu.Unlock()
	s.changed()
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *rowStore[R]) Replace(objects []any, _ string) error {
	rows := make(map[string]R, len(objects))
	for _, object := range objects {
		key, err := cache.MetaNamespaceKeyFunc(object)
		if err != nil {
			return err
		}
		if row, ok := s.rowOf(object); ok {
			rows[key] = row
		}
	}
	s.mu.Lock()
	s.rows, s.listed = rows, true
	s.mu.Unlock()
	s.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (*rowStore[R]) Resync() error { return nil }
