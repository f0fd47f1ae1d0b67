package helmlifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/testbed/lab"
)

const hostsFile = "/etc/hosts"

// services does for Drover's namespace what kube-proxy and DNS do in a cluster: connections to the address of a Service go to its pods that are
// ready, in turn, and pods that start find it by its name.
type services struct {
	ctx       context.Context // what is forwarded is so until the test ends
	t         *testing.T
	hosts     []byte
	services  corelisters.ServiceNamespaceLister
	slices    discoverylisters.EndpointSliceNamespaceLister
	turn      atomic.Uint64
	mu        sync.Mutex
	forwarded map[string]*lab.Forwarder
}

// runServices runs them until the test ends.
func runServices(t *testing.T) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	hosts, err := os.ReadFile(hostsFile)
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(charts.SystemNamespace))
	known, endpoints := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	s := &services{
		ctx: ctx, t: t, hosts: hosts, services: known.Lister().Services(charts.SystemNamespace),
		slices: endpoints.Lister().EndpointSlices(charts.SystemNamespace), forwarded: map[string]*lab.Forwarder{},
	}
	endpoints.Informer() // is asked for by name alone
	_, err = known.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.sync() }, UpdateFunc: func(any, any) { s.sync() }, DeleteFunc: func(any) { s.sync() },
	})
	check(t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		for _, forwarder := range s.forwarded {
			forwarder.Close()
		}
	})
}

// sync makes forwarded and the file of names say what Services there are.
func (s *services) sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.services.List(labels.Everything())
	if err != nil {
		s.t.Errorf("list Services: %v", err)
	}
	wanted := map[string]bool{}
	names := bytes.NewBuffer(slices.Clone(s.hosts))
	for _, service := range all {
		fmt.Fprintf(names, "%s %s.%s.svc\n", service.Spec.ClusterIP, service.Name, service.Namespace)
		if service.Name == release {
			fmt.Fprintf(names, "%s %s\n", service.Spec.ClusterIP, serverName) // as its administrator tells the DNS of the site
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			address := net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
			wanted[address] = true
			s.forward(address, service, port.Name)
		}
	}
	for address, forwarder := range s.forwarded {
		if !wanted[address] {
			forwarder.Close()
			delete(s.forwarded, address)
		}
	}
	if err := replace(hostsFile, names.Bytes()); err != nil {
		s.t.Errorf("write names of Services: %v", err)
	}
}

// replace writes a file in its place, because it is a mount, and at once, because it is read meanwhile.
func replace(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteAt(content, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(content)))
}

func (s *services) forward(address string, service *corev1.Service, port string) {
	if s.forwarded[address] != nil {
		return
	}
	forwarder, err := lab.ForwardTo(s.ctx, address, func(ctx context.Context) (net.Conn, error) {
		endpoint, err := s.endpoint(service.Name, port)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", endpoint)
	})
	if err != nil {
		s.t.Errorf("serve Service %s: %v", service.Name, err)
		return
	}
	s.forwarded[address] = forwarder
}

// endpoint chooses a pod: one that is ready or, as kube-proxy does, one that ends and still serves, when there is no other.
func (s *services) endpoint(service, port string) (string, error) {
	all, err := s.slices.List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return "", err
	}
	var ready, leaving []string
	for _, slice := range all {
		number := portOf(slice, port)
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[i]
			address := net.JoinHostPort(endpoint.Addresses[0], number)
			switch is := endpoint.Conditions; {
			case is.Ready == nil || *is.Ready:
				ready = append(ready, address)
			case is.Serving != nil && *is.Serving:
				leaving = append(leaving, address)
			}
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	if len(ready) == 0 {
		return "", errors.New("no pod of the Service is ready")
	}
	slices.Sort(ready)
	return ready[s.turn.Add(1)%uint64(len(ready))], nil
}

func portOf(slice *discoveryv1.EndpointSlice, name string) string {
	for _, port := range slice.Ports {
		if port.Name != nil && *port.Name == name && port.Port != nil {
			return strconv.Itoa(int(*port.Port))
		}
	}
	return ""
}
