package fakeagent

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/reach/clusteragent"
)

// agentManifest is the file of a plan that installs the agent inside the cluster.
const agentManifest = "cluster-agent.yaml"

// account is the agent's credential in its cluster.
const account = "account-of-the-agent"

// installed is the content of the agent's manifest. The zero value stands for a plan without a manifest.
type installed struct{ serverURL, caChecksum, token string }

// agentOf reads the manifest of the cluster agent from a plan.
func agentOf(p plan.NodePlan) (installed, error) {
	for _, file := range p.Files {
		if filepath.Base(file.Path) != agentManifest || file.Content == "" {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			return installed{}, fmt.Errorf("read %s: %w", file.Path, err)
		}
		return parseAgent(content)
	}
	return installed{}, nil
}

func parseAgent(manifest []byte) (installed, error) {
	var found installed
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var object struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return found, fmt.Errorf("read the manifest of the agent: %w", err)
		}
		switch object.Kind {
		case "Secret":
			var secret corev1.Secret
			if err := yaml.Unmarshal([]byte(document), &secret); err != nil {
				return found, fmt.Errorf("read the Secret of the agent: %w", err)
			}
			if token := secret.Data["token"]; len(token) > 0 {
				found.serverURL, found.token = string(secret.Data["url"]), string(token)
			}
		case "Deployment":
			var deployment appsv1.Deployment
			if err := yaml.Unmarshal([]byte(document), &deployment); err != nil {
				return found, fmt.Errorf("read the Deployment of the agent: %w", err)
			}
			for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
				if variable.Name == "CATTLE_CA_CHECKSUM" {
					found.caChecksum = variable.Value
				}
			}
		}
	}
	return found, nil
}

// startAgent runs Drover's cluster agent until ctx ends or no machine serves the cluster's API.
func (w *World) startAgent(ctx context.Context, c *cluster, said installed) error {
	if said.token == "" {
		return nil
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if c.stopAgent != nil || c.serving == 0 || c.apart {
		return nil
	}
	directory, err := os.MkdirTemp("", "fakeagent-")
	if err != nil {
		return fmt.Errorf("make a directory for the agent: %w", err)
	}
	api, stopAPI, err := serveAgent(c)
	if err != nil {
		return errors.Join(err, os.RemoveAll(directory))
	}
	options := clusteragent.Options{
		ServerURL: said.serverURL, CAChecksum: said.caChecksum, APIServer: api, Version: Agent, Log: silent(),
		Proxy:     w.road.proxy,
		TokenFile: filepath.Join(directory, "token"), APIServerTokenFile: filepath.Join(directory, "account"),
		APIServerCAFile: filepath.Join(directory, "ca.crt"),
	}
	for name, content := range map[string][]byte{
		options.TokenFile: []byte(said.token), options.APIServerTokenFile: []byte(account),
		options.APIServerCAFile: c.identity.CA,
	} {
		err = errors.Join(err, os.WriteFile(name, content, 0o600))
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := errors.Join(err, clusteragent.Run(ctx, options)); err != nil {
			w.opts.Log("fakeagent: the agent of the cluster ended: %v", err)
		}
	})
	c.stopAgent = func() {
		cancel()
		running.Wait()
		stopAPI()
		_ = os.RemoveAll(directory)
	}
	return nil
}

// serveAgent serves a cluster's API for its agent, at the address of the service instead of a machine's.
func serveAgent(c *cluster) (address string, stop func(), err error) {
	config, err := c.identity.ServerTLS("127.0.0.1")
	if err != nil {
		return "", nil, err
	}
	config.ClientAuth = tls.NoClientCert
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ended by the function that is returned
	if err != nil {
		return "", nil, fmt.Errorf("listen for the agent: %w", err)
	}
	server := &http.Server{TLSConfig: config, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+account {
			http.Error(rw, "who is it?", http.StatusUnauthorized)
			return
		}
		c.ServeHTTP(rw, r)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "") // always ends with ErrServerClosed
	}()
	return "https://" + listener.Addr().String(), func() { _ = server.Close(); <-done }, nil
}

func silent() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}
