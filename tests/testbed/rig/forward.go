package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/tests/testbed/lab"
)

// Ports on the host's loopback at which users reach the lab. If one is taken, the rig uses the next free one.
const (
	managementPort = 6443
	droverPort     = 8443
	clusterPort    = 16443
)

// Forwarded is a rig that users of this host can reach with ordinary tools, through sockets on 127.0.0.1.
type Forwarded struct {
	// ManagementKubeconfig is a kubeconfig file for the management plane.
	ManagementKubeconfig string
	// Management and Cluster are the flags with which kubectl and drover select each of the two: "--context NAME".
	Management, Cluster string

	rig        *Rig
	cluster    string
	forwarders []*lab.Forwarder
}

// Forward opens the sockets of the management plane and of Drover, and writes the kubeconfig of the management plane.
// AwaitCluster does the same for the cluster.
func (r *Rig) Forward(ctx context.Context, cluster string) (*Forwarded, error) {
	f := &Forwarded{rig: r, cluster: cluster}
	data, err := os.ReadFile(filepath.Join(r.DataDir(), "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if f.ManagementKubeconfig, f.Management, err = f.open(ctx, r.managementContext(), managementPort,
		data); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.forward(ctx, droverPort, lab.Gateway.String()+":8443"); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// AwaitCluster waits for the cluster's kubeconfig Secret, opens a socket for its API and writes its kubeconfig. The
// socket ends with ctx.
func (f *Forwarded) AwaitCluster(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(f.rig.Config)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	var data []byte
	if err := poll(bounded, func() (bool, error) {
		secret, err := clients.CoreV1().Secrets(clusterNamespace).Get(bounded, f.cluster+"-kubeconfig",
			metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not there yet
		}
		data = secret.Data["value"]
		return len(data) > 0, nil
	}); err != nil {
		return fmt.Errorf("wait for kubeconfig of %s: %w", f.cluster, err)
	}
	_, f.Cluster, err = f.open(ctx, f.rig.clusterContext(), clusterPort, data)
	return err
}

// Close closes all sockets.
func (f *Forwarded) Close() {
	for _, forwarder := range f.forwarders {
		forwarder.Close()
	}
}

// open forwards the server of a kubeconfig. It writes a kubeconfig that uses the socket, to a file and as a context of
// the user's kubeconfig. The kubeconfig sets the expected server name, because the server's certificate has the address
// in the lab.
func (f *Forwarded) open(ctx context.Context, name string, port int, kubeconfig []byte) (file, flag string, err error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return "", "", fmt.Errorf("read kubeconfig of %s: %w", name, err)
	}
	if err := errors.Join(clientcmd.ResolveLocalPaths(config), clientcmdapi.FlattenConfig(config)); err != nil {
		return "", "", fmt.Errorf("read kubeconfig of %s: %w", name, err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil || config.AuthInfos[current.AuthInfo] == nil {
		return "", "", fmt.Errorf("read kubeconfig of %s: it has no current cluster", name)
	}
	cluster := config.Clusters[current.Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return "", "", fmt.Errorf("read kubeconfig of %s: %w", name, err)
	}
	address, err := f.forward(ctx, port, server.Host)
	if err != nil {
		return "", "", err
	}
	if cluster.TLSServerName == "" {
		cluster.TLSServerName = server.Hostname()
	}
	server.Host = address
	cluster.Server = server.String()
	one := singleContext(name, cluster, config.AuthInfos[current.AuthInfo])
	if name == f.rig.managementContext() {
		one.Contexts[name].Namespace = clusterNamespace
	}
	file = filepath.Join(f.rig.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*one, file); err != nil {
		return "", "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	if err := f.rig.mergeContext(name, one); err != nil {
		fmt.Fprintf(f.rig.Log, "The context %s is not in your kubeconfig: %v\n", name, err)
		return file, "--kubeconfig " + file, nil
	}
	return file, "--context " + name, nil
}

func (f *Forwarded) forward(ctx context.Context, port int, target string) (string, error) {
	for ; ; port++ {
		forwarder, err := lab.Forward(ctx, "127.0.0.1:"+strconv.Itoa(port), f.rig.Lab.Namespace(), target)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("forward %s: %w", target, err)
		}
		f.forwarders = append(f.forwarders, forwarder)
		return forwarder.Address(), nil
	}
}
