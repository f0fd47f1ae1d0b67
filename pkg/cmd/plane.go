package cmd

import (
	"cmp"
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

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// planeTimeout limits the start of the management plane.
const planeTimeout = 2 * time.Minute

// startPlane starts the embedded management plane. It returns its configuration and the function that stops it.
func (o *serverOptions) startPlane(ctx context.Context, log *logrus.Logger) (*rest.Config, func(), error) {
	kube, err := orSibling(o.kubeBinary, "drover-kube")
	if err != nil {
		return nil, nil, err
	}
	machine, err := orSibling(o.machineBinary, "machine-entrypoint")
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find the path of this program: %w", err)
	}
	plane, err := managementplane.New(managementplane.Config{
		Dir: o.dataDir, KubeBinary: kube, BindAddress: o.planeAddress(), ServingNames: []string{"localhost"},
		Ports: managementplane.Ports{APIServer: 6443}, Components: managementplane.AllComponents(),
		AuditLog: o.auditLog,
		Images:   append(machineImages(machine), ownImages(self, o.settings)...),
		Log:      log.WithField("component", "management-plane"),
	})
	if err != nil {
		return nil, nil, err
	}
	starting, cancel := context.WithTimeout(ctx, planeTimeout)
	defer cancel()
	if err := plane.Start(starting); err != nil {
		return nil, nil, fmt.Errorf("start management plane: %w", err)
	}
	log.WithField("kubeconfig", plane.Kubeconfig()).Info("The management plane answers")
	return plane.RESTConfig(), plane.Stop, nil
}

// planeAddress is the address of the Kubernetes API: the address for machines, or the loopback address if that is
// unspecified.
func (o *serverOptions) planeAddress() string {
	if o.bindAddress == "0.0.0.0" || o.bindAddress == "::" {
		return "127.0.0.1"
	}
	return o.bindAddress
}

// machineImages runs the entrypoint of the rancher-machine image as a local program. rancher-machine is in the same
// folder. mkisofs, which only the driver vmwarevsphere calls, may be there.
func machineImages(entrypoint string) []managementplane.Image {
	files := map[string]string{}
	for _, name := range []string{"rancher-machine", "mkisofs"} {
		program := filepath.Join(filepath.Dir(entrypoint), name)
		if _, err := os.Stat(program); err == nil || name == "rancher-machine" {
			files["/usr/local/bin/"+name] = program
		}
	}
	return []managementplane.Image{{
		Match: "*rancher/machine:*", Program: entrypoint, WorkingDir: "/home/machine", User: 1000,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/machine",
		},
		Files: files,
	}}
}

// ownImages runs this program in place of Drover's own image, which asks node drivers for their flags.
func ownImages(program string, settings controllers.Settings) []managementplane.Image {
	const user = 65532
	return []managementplane.Image{{
		Match: naming.ImageIn(settings.SystemDefaultRegistry,
			cmp.Or(settings.ClusterAgentImage, serverImage+":"+Version)),
		Program: program, WorkingDir: "/", User: user,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}}
}

func orSibling(path, name string) (string, error) {
	if path != "" {
		return filepath.Abs(path)
	}
	return siblingProgram(name)
}

// certificate returns the TLS configuration of the endpoints for machines. It serves the given certificate, or one for
// the address in --server-url that Drover's own authority signs. Machines learn that authority. A renewed certificate
// is used without a restart.
func (o *serverOptions) certificate(ctx context.Context, config *rest.Config, log logrus.FieldLogger) (*tls.Config,
	error) {
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

// renewalInterval is how often Drover's own certificates are checked for their expiry.
const renewalInterval = 12 * time.Hour

// signed returns a certificate of Drover's own authority. It renews the certificate in its files before it expires,
// until ctx ends. servingConfig reads the renewed files.
func (o *serverOptions) signed(ctx context.Context, log logrus.FieldLogger, sign func() (pki.Pair, error)) (pki.Pair,
	error) {
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
				log.WithError(err).Error("Cannot renew the certificate; Drover retries")
			}
			return false, nil
		}) // ends with ctx only
	}()
	return pair, nil
}

// servingConfig serves the certificate from the files. It switches to a renewed certificate once both files are
// complete. Other programs can renew the files, for example the kubelet for a Secret.
func servingConfig(ctx context.Context, pair pki.Pair, log logrus.FieldLogger) (*tls.Config, error) {
	watcher, err := certwatcher.New(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			log.WithError(err).Error("Cannot watch the serving certificate: a renewed one needs a restart")
		}
	}()
	return &tls.Config{GetCertificate: watcher.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// notAfter is when the served certificate expires, zero if unknown.
func notAfter(config *tls.Config) time.Time {
	certificate, err := config.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil || certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}

// authority returns the authority from the data directory if the management plane is embedded. Otherwise all replicas
// share the authority in the management cluster.
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
