package rig

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/drover-io/drover/tests/testbed/ec2"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// ec2Port is the port of EC2's Query API on the lab's gateway.
const ec2Port = "7480"

// EC2 is an account of Amazon EC2 in the lab's network. Its instances are machines of the lab.
type EC2 struct {
	*ec2.Cloud
	// Endpoint is the URL of the Query API.
	Endpoint string
	// AccessKey and SecretKey are the account's credential.
	AccessKey, SecretKey string

	servers []*http.Server
}

// ServeEC2 serves EC2's Query API, and its metadata service to the machines. The rig's Stop ends both. The machines
// need cloud-init (Options.CloudInit).
func (r *Rig) ServeEC2(ctx context.Context) (*EC2, error) {
	secret, err := keepSecret(filepath.Join(r.Dir, "ec2", "secret"))
	if err != nil {
		return nil, err
	}
	if err := r.Lab.AddAddress(ctx, ec2.MetadataAddress); err != nil {
		return nil, fmt.Errorf("serve EC2: %w", err)
	}
	address := net.JoinHostPort(lab.Gateway.String(), ec2Port)
	r.ec2 = &EC2{Endpoint: "http://" + address, AccessKey: "AKIALAB0000000000000", SecretKey: secret}
	r.ec2.Cloud = ec2.New(r.Lab, r.ec2.AccessKey)
	for where, handler := range map[string]http.Handler{
		address: r.ec2.Handler(),
		net.JoinHostPort(ec2.MetadataAddress.String(), "80"): r.ec2.Metadata(),
	} {
		listener, err := lab.ListenIn(r.Lab.Namespace(), where)
		if err != nil {
			return nil, fmt.Errorf("serve EC2: %w", err)
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		r.ec2.servers = append(r.ec2.servers, server)
		go func() { _ = server.Serve(listener) }()
	}
	return r.ec2, nil
}

// close stops the servers, and waits for machines that boot.
func (e *EC2) close() {
	for _, server := range e.servers {
		_ = server.Close()
	}
	e.Wait()
}
