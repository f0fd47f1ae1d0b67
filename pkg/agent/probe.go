package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

const (
	defaultProbeTimeout = time.Second
	maxRedirects        = 10
	maxProbeBody        = 64 << 10
)

// probeAll runs all probes of a plan concurrently and returns their new states. wait makes each probe wait for its
// initial delay first. Passes that applied the plan set it. States of probes that are not in the plan are dropped.
func probeAll(ctx context.Context, log logrus.FieldLogger, probes map[string]plan.Probe,
	before map[string]plan.ProbeStatus, wait bool) map[string]plan.ProbeStatus {
	after := make(map[string]plan.ProbeStatus, len(probes))
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, probe := range probes {
		all.Go(func() {
			if wait {
				pause(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second)
			}
			err := probeOnce(ctx, probe)
			if ctx.Err() != nil {
				lock(&mu, func() { after[name] = before[name] })
				return
			}
			if err != nil {
				log.WithField("probe", name).WithError(err).Debug("Probe failed")
			}
			lock(&mu, func() { after[name] = count(probe, before[name], err == nil) })
		})
	}
	all.Wait()
	return after
}

// count adds one result to the state of a probe. Counters stop at their threshold, so that a stable probe changes
// nothing.
func count(probe plan.Probe, s plan.ProbeStatus, ok bool) plan.ProbeStatus {
	if ok {
		threshold := orDefault(probe.SuccessThreshold, plan.DefaultSuccessThreshold)
		s.FailureCount = 0
		s.SuccessCount = min(s.SuccessCount+1, threshold)
		s.Healthy = s.Healthy || s.SuccessCount >= threshold
		return s
	}
	threshold := orDefault(probe.FailureThreshold, plan.DefaultFailureThreshold)
	s.SuccessCount = 0
	s.FailureCount = min(s.FailureCount+1, threshold)
	s.Healthy = s.Healthy && s.FailureCount < threshold
	return s
}

// probeOnce makes one request. It fails unless the final answer has a status from 200 to 299.
func probeOnce(ctx context.Context, probe plan.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(orDefault(probe.TimeoutSeconds, 1))*defaultProbeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, probe.HTTPGetAction.URL, http.NoBody)
	if err != nil {
		return errors.New("httpGet.url is not a URL")
	}
	transport := &http.Transport{TLSClientConfig: probeTLS(probe.HTTPGetAction), DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != via[0].URL.Hostname() || len(via) >= maxRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxProbeBody)) // only the status counts
	if err := ctx.Err(); err != nil {
		return err // a server that notices the cancellation may answer before the connection closes
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return errors.New("answered " + response.Status)
	}
	return nil
}

// probeTLS reads the certificates for every request, because the services of a node rotate them. It skips unreadable
// files. If such a file is needed, the request itself fails.
func probeTLS(action plan.HTTPGetAction) *tls.Config {
	if action.Insecure {
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // the plan asks for it
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if action.CACert != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if pem, err := os.ReadFile(action.CACert); err == nil {
			pool.AppendCertsFromPEM(pem)
		}
		cfg.RootCAs = pool
	}
	if action.ClientCert != "" && action.ClientKey != "" {
		if pair, err := tls.LoadX509KeyPair(action.ClientCert, action.ClientKey); err == nil {
			cfg.Certificates = []tls.Certificate{pair}
		}
	}
	return cfg
}

func orDefault(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

// pause waits for a duration or the end of the context.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func lock(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}
