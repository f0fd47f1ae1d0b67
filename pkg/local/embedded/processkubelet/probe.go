package processkubelet

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// readiness counts the answers of a probe.
type readiness struct {
	// succeeds and fails are the numbers of consecutive answers that make a container ready, and not ready.
	succeeds, fails int32
	succeeded       int32
	failed          int32
	ready           bool
}

func newReadiness(probe *corev1.Probe) *readiness {
	return &readiness{succeeds: cmp.Or(probe.SuccessThreshold, 1), fails: cmp.Or(probe.FailureThreshold, 3)}
}

// observe counts one answer. It returns true if the state changes.
func (r *readiness) observe(ok bool) (changed bool) {
	before := r.ready
	if ok {
		r.succeeded, r.failed = r.succeeded+1, 0
	} else {
		r.succeeded, r.failed = 0, r.failed+1
	}
	switch {
	case r.succeeded >= r.succeeds:
		r.ready = true
	case r.failed >= r.fails:
		r.ready = false
	}
	return r.ready != before
}

// asksReadiness reports whether to run the readiness probe of a container. That requires a network of its own, because
// otherwise another pod may serve the port.
func (w *worker) asksReadiness(container *corev1.Container) bool {
	return w.network.Path != "" && container.ReadinessProbe != nil && container.ReadinessProbe.HTTPGet != nil
}

// watchReadiness probes a running container until it has ended. Until the container is ready for the first time, it
// probes every second, which replaces a startup probe.
func (w *worker) watchReadiness(ctx context.Context, container *corev1.Container, over <-chan struct{}) {
	probe, state := container.ReadinessProbe, newReadiness(container.ReadinessProbe)
	client := &http.Client{
		Timeout:       time.Duration(cmp.Or(probe.TimeoutSeconds, 1)) * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // as kubelets do
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	const hurry = time.Second
	period := time.Duration(cmp.Or(probe.PeriodSeconds, 10)) * time.Second
	pause := time.Duration(probe.InitialDelaySeconds) * time.Second
	for wasReady := false; ; {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if state.observe(w.isReady(ctx, client, container)) {
			w.change(container.Name, func(s *containerState) { s.unready = !state.ready })
			w.publish()
		}
		wasReady = wasReady || state.ready
		pause = period
		if !wasReady {
			pause = min(period, hurry)
		}
	}
}

func (w *worker) isReady(ctx context.Context, client *http.Client, container *corev1.Container) bool {
	address, err := probeURL(container, w.network.Address)
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false
	}
	for _, header := range container.ReadinessProbe.HTTPGet.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest
}

// probeURL returns the URL of a container's readiness probe.
func probeURL(container *corev1.Container, address string) (string, error) {
	get := container.ReadinessProbe.HTTPGet
	port := get.Port.IntVal
	if get.Port.Type == intstr.String {
		for _, known := range container.Ports {
			if known.Name == get.Port.StrVal {
				port = known.ContainerPort
			}
		}
		if port == 0 {
			return "", fmt.Errorf("the container does not have port %q of the readiness probe", get.Port.StrVal)
		}
	}
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	path := cmp.Or(get.Path, "/")
	if path[0] != '/' {
		path = "/" + path
	}
	return scheme + "://" + net.JoinHostPort(cmp.Or(get.Host, address), strconv.Itoa(int(port))) + path, nil
}
