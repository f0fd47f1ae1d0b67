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

// services replaces kube-proxy and DNS for Drover's namespace. Connections to the address of a Service go to its ready
// pods in turn, and new pods find it by its name.
type services struct {
	ctx       context.Context // forwarding ends with the test
	t         *testing.T
	hosts     []byte
	services  corelisters.ServiceNamespaceLister
	slices    discoverylisters.EndpointSliceNamespaceLister
	turn      atomic.Uint64
	mu        sync.Mutex
	forwarded map[string]*lab.Forwarder
}

// runServices runs services until the test ends.
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
	endpoints.Informer() // requested by name only
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

// sync updates the forwarded addresses and the hosts file to match the Services.
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
			// Like an administrator's entry in the site's DNS.
			fmt.Fprintf(names, "%s %s\n", service.Spec.ClusterIP, serverName)
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

// replace overwrites a file in place, because it is a mount, and in one write, because other processes read it at the
// same time.
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

// endpoint chooses a ready pod. If there is none, it chooses a terminating pod that still serves, as kube-proxy does.
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
