package processkubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// podHandler serves kubectl logs, exec and port-forward, which arrive through the API server.
func (k *kubelet) podHandler() http.Handler {
	return api.PodHandler(api.PodHandlerConfig{
		RunInContainer:        k.runInContainer,
		PortForward:           k.portForward,
		GetContainerLogs:      k.containerLogs,
		GetPods:               k.GetPods,
		GetPodsFromKubernetes: k.GetPods,
	}, false)
}

// onlyAllowed rejects all but the configured clients, because exec is equivalent to root on this machine.
func (k *kubelet) onlyAllowed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 ||
			!slices.Contains(k.config.AllowedClients, r.TLS.PeerCertificates[0].Subject.CommonName) {
			http.Error(w, "only the API server may send requests to this node", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (k *kubelet) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !k.ready.Load() {
			http.Error(w, "the node is not registered yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "ok")
	})
	return mux
}

func (k *kubelet) containerLogs(ctx context.Context, namespace, pod, container string,
	options api.ContainerLogOpts) (io.ReadCloser, error) {
	w, err := k.workerOf(namespace, pod, container)
	if err != nil {
		return nil, err
	}
	number := w.latestAttempt(container)
	if options.Previous {
		number--
	}
	if number < 0 {
		return nil, errdefs.NotFoundf("container %s was not restarted: there is no previous log", container)
	}
	place := w.place(container, number)
	over := func() bool {
		_, ended := attempt{dir: place.attemptDir}.ended()
		return ended || w.isDone()
	}
	return openLog(ctx, place.logFile, options, over)
}

func (k *kubelet) workerOf(namespace, pod, container string) (*worker, error) {
	w := k.find(namespace, pod)
	if w == nil {
		return nil, errdefs.NotFoundf("pod %s/%s does not run on this node", namespace, pod)
	}
	w.mu.Lock()
	_, known := w.state.containers[container]
	w.mu.Unlock()
	if !known {
		return nil, errdefs.NotFoundf("pod %s/%s has no container %s", namespace, pod, container)
	}
	return w, nil
}

// runInContainer runs a command in a running container's mounts and as its user. It has no terminal.
func (k *kubelet) runInContainer(ctx context.Context, namespace, pod, container string, command []string,
	attach api.AttachIO) error {
	w, err := k.workerOf(namespace, pod, container)
	if err != nil {
		return err
	}
	place := w.place(container, w.latestAttempt(container))
	a := attempt{dir: place.attemptDir}
	var start startRecord
	if _, ended := a.ended(); ended || readJSON(filepath.Join(a.dir, startFile), &start) != nil {
		return errdefs.InvalidInputf("container %s does not run", container)
	}
	args := append([]string{ExecProgram, strconv.Itoa(start.PID), filepath.Join(a.dir, specFile)}, command...)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = []string{}
	if out := attach.Stdout(); out != nil {
		cmd.Stdout = out
	}
	cmd.Stderr = cmd.Stdout
	if out := attach.Stderr(); out != nil {
		cmd.Stderr = out
	}
	if in := attach.Stdin(); in != nil {
		// Not cmd.Stdin: Wait would then wait for the client to close its side.
		pipe, err := cmd.StdinPipe()
		if err != nil {
			return fmt.Errorf("connect standard input: %w", err)
		}
		go func() {
			_, _ = io.Copy(pipe, in) // ends with either side
			pipe.Close()
		}()
	}
	return exitStatus(cmd.Run())
}

// exitStatus converts an exit code into the error that the streaming server passes to the client.
func exitStatus(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return codeError{exit}
	}
	return err
}

type codeError struct{ *exec.ExitError }

func (e codeError) ExitStatus() int { return e.ExitCode() }

// portForward connects to a port of the pod, on this machine's loopback or on the pod's own address.
func (k *kubelet) portForward(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	w := k.find(namespace, pod)
	if w == nil {
		return errdefs.NotFoundf("pod %s/%s does not run on this node", namespace, pod)
	}
	defer stream.Close()
	host := "127.0.0.1"
	if k.hasOwnNetwork(w.pod) {
		host = w.address()
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("connect to port %d of the pod: %w", port, err)
	}
	defer connection.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(connection, stream) // ends with either side
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
	_, _ = io.Copy(stream, connection) // ends with either side
	stream.Close()
	both.Wait()
	return nil
}
