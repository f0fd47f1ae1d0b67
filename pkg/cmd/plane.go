package cmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// planeTimeout is how long the management plane may take to answer.
const planeTimeout = 2 * time.Minute

// startPlane starts the embedded management plane and returns how to reach it and what stops it.
func (o *serverOptions) startPlane(ctx context.Context, log *logrus.Logger) (*rest.Config, func(), error) {
	kube, err := orBeside(o.kubeBinary, "drover-kube")
	if err != nil {
		return nil, nil, err
	}
	machine, err := orBeside(o.machineBinary, "machine-entrypoint")
	if err != nil {
		return nil, nil, err
	}
	plane, err := managementplane.New(managementplane.Config{
		Dir: o.dataDir, KubeBinary: kube, BindAddress: o.planeAddress(), ServingNames: []string{"localhost"},
		Ports: managementplane.Ports{APIServer: 6443}, Components: managementplane.AllComponents(), AuditLog: o.auditLog,
		Images: machineImages(machine), Log: log.WithField("component", "management-plane"),
	})
	if err != nil {
		return nil, nil, err
	}
	starting, cancel := context.WithTimeout(ctx, planeTimeout)
	defer cancel()
	if err := plane.Start(starting); err != nil {
		return nil, nil, fmt.Errorf("start management plane: %w", err)
	}
	log.WithField("kubeconfig", plane.Kubeconfig()).Info("Management plane answers")
	return plane.RESTConfig(), plane.Stop, nil
}

// planeAddress is where the Kubernetes API is served: the address for machines, unless that is any.
func (o *serverOptions) planeAddress() string {
	if o.bindAddress == "0.0.0.0" || o.bindAddress == "::" {
		return "127.0.0.1"
	}
	return o.bindAddress
}

// machineImages says that the image of rancher-machine is its entrypoint as a local program, which finds rancher-machine beside it.
func machineImages(entrypoint string) []managementplane.Image {
	return []managementplane.Image{{
		Match: "*rancher/machine:*", Program: entrypoint, WorkingDir: "/home/machine", User: 1000,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/machine",
		},
		Files: map[string]string{"/usr/local/bin/rancher-machine": filepath.Join(filepath.Dir(entrypoint), "rancher-machine")},
	}}
}

func orBeside(path, name string) (string, error) {
	if path != "" {
		return filepath.Abs(path)
	}
	return beside(name)
}

// certificate is what the endpoints for machines show, read anew when it is renewed: the given one, or one for the address in --server-url that an authority
// of our own signs, which machines are then told to trust.
func (o *serverOptions) certificate(ctx context.Context, config *rest.Config, log logrus.FieldLogger) (*tls.Config, error) {
	pair := pki.Pair{CertFile: o.tlsCert, KeyFile: o.tlsKey}
	switch {
	case o.tlsCert == "":
		ca, err := o.authority(ctx, config)
		if err != nil {
			return nil, err
		}
		address, err := url.Parse(o.settings.ServerURL)
		if err != nil {
			return nil, fmt.Errorf("--server-url: %w", err)
		}
		if pair, err = o.signed(ctx, log, func() (pki.Pair, error) {
			return ca.Serving("drover-serving", address.Hostname(), "localhost", "127.0.0.1")
		}); err != nil {
			return nil, err
		}
		o.settings.CACerts = string(ca.CertPEM)
	case o.caCerts != "":
		data, err := os.ReadFile(o.caCerts)
		if err != nil {
			return nil, fmt.Errorf("--cacerts-file: %w", err)
		}
		o.settings.CACerts = string(data)
	}
	return servingConfig(ctx, pair, log)
}

// renewalInterval is how often it is looked whether a certificate of our own comes close to its end.
const renewalInterval = 12 * time.Hour

// signed returns a certificate of our own authority, and has it signed anew before it ends, for as long as ctx lasts: in its files, where servingConfig
// finds it.
func (o *serverOptions) signed(ctx context.Context, log logrus.FieldLogger, sign func() (pki.Pair, error)) (pki.Pair, error) {
	pair, err := sign()
	if err != nil {
		return pki.Pair{}, err
	}
	interval := o.renewalInterval
	if interval == 0 {
		interval = renewalInterval
	}
	go func() {
		_ = wait.PollUntilContextCancel(ctx, interval, false, func(context.Context) (bool, error) {
			if _, err := sign(); err != nil {
				log.WithError(err).Error("The certificate cannot be renewed, which is tried again")
			}
			return false, nil
		}) // ends with ctx only
	}()
	return pair, nil
}

// servingConfig shows the certificate in the files, and a renewed one as soon as it is whole; until then the last one stays. Others
// may renew it, such as the kubelet that of a Secret.
func servingConfig(ctx context.Context, pair pki.Pair, log logrus.FieldLogger) (*tls.Config, error) {
	watcher, err := certwatcher.New(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			log.WithError(err).Error("The serving certificate is not watched: a renewed one is shown after a restart only")
		}
	}()
	return &tls.Config{GetCertificate: watcher.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// notAfter is when the certificate that is served now expires, zero when nobody knows.
func notAfter(config *tls.Config) time.Time {
	certificate, err := config.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil || certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}

// authority is in the data directory where the management plane is, and else in the management cluster, for all replicas.
func (o *serverOptions) authority(ctx context.Context, config *rest.Config) (*pki.Authority, error) {
	dir := filepath.Join(o.dataDir, "pki")
	if o.embedded {
		return pki.OpenAuthority(dir, authorityName, time.Now)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the management cluster: %w", err)
	}
	return sharedAuthority(ctx, client, dir, o.instanceID)
}
