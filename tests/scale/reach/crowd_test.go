package reach

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/reach/clusteragent"
	"github.com/drover-io/drover/tests/contract/plane"
)

// Sessions is the server's memory per agent session. It includes everything beyond the server's memory without agents,
// such as its clients of these clusters.
type Sessions struct {
	Agents int `json:"agents"`
	// LiveKiB is live heap and stacks per session. ResidentKiB is the memory of the process, including free memory.
	LiveKiB     float64 `json:"liveKiBPerSession"`
	ResidentKiB float64 `json:"residentKiBPerSession"`
	Goroutines  float64 `json:"goroutinesPerSession"`
	// Percent is the server's CPU usage for keepalives.
	Percent float64 `json:"serverPercentOfOneCore"`
	Target  float64 `json:"target"`
	Within  bool    `json:"within"`
}

// Storm is the return of all agents after a restart of the server, while a user sends requests for a cluster.
type Storm struct {
	Agents int `json:"agents"`
	// Seconds is the time from the end of the old server until all agents are connected to the new one. ReadySeconds is
	// the time until the new server is ready.
	Seconds      float64 `json:"seconds"`
	ReadySeconds float64 `json:"readySeconds"`
	// UserSeconds is the time from the end of the old server until a request of the user succeeds. After that, the user
	// sent Requests requests, and Refused of them failed.
	UserSeconds float64 `json:"userSeconds"`
	Requests    int     `json:"requests"`
	Refused     int     `json:"refused"`
	UserP50     float64 `json:"userP50Milliseconds"`
	UserMost    float64 `json:"userMostMilliseconds"`
	Target      float64 `json:"target"`
	Within      bool    `json:"within"`
}

const (
	agents          = 1000
	sessionTarget   = 200
	stormTarget     = 60
	creators        = 8
	betweenRequests = 50 * time.Millisecond
)

// crowd connects many agents at once, and restarts the server.
func (w *world) crowd() (Sessions, Storm) {
	w.Helper()
	tokens := w.populate()
	before := w.look()
	w.connect(tokens)
	w.awaitAgents(5 * time.Minute)
	after := w.look()
	each := func(a, b float64) float64 { return round((b-a)/agents/1024, 1) }
	sessions := Sessions{
		Agents: agents, LiveKiB: each(before.live, after.live), ResidentKiB: each(before.resident, after.resident),
		Goroutines: round((after.goroutines-before.goroutines)/agents, 1),
		Percent:    round(after.percent-before.percent, 1), Target: sessionTarget,
	}
	sessions.Within = sessions.LiveKiB <= sessionTarget
	w.say(sessions)
	return sessions, w.storm()
}

// populate creates the Clusters and returns the tokens of their agents by the clusters' IDs.
func (w *world) populate() map[string]string {
	w.Helper()
	known, err := w.tokens()
	w.must(err)
	begin := time.Now()
	var making sync.WaitGroup
	problems := make([]error, creators)
	for c := range creators {
		making.Go(func() {
			for i := c; i < agents; i += creators {
				problems[c] = errors.Join(problems[c], w.create(fmt.Sprintf("crowd-%04d", i)))
			}
		})
	}
	making.Wait()
	w.must(errors.Join(problems...))
	var found map[string]string
	w.await(10*time.Minute, func() (string, error) {
		time.Sleep(time.Second) // the list is large
		if found, err = w.tokens(); err != nil {
			return "", err
		}
		for id, token := range found {
			if known[id] != "" || token == "" {
				delete(found, id)
			}
		}
		if len(found) < agents {
			return fmt.Sprintf("%d clusters have tokens", len(found)), nil
		}
		return "", nil
	})
	w.Logf("%d clusters were created in %s", agents, time.Since(begin).Round(time.Second))
	return found
}

// connect runs the agents until the end of the test. Their API server only returns a version.
func (w *world) connect(tokens map[string]string) {
	w.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(rw, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
			return
		}
		rw.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(rw,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"there is nothing"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	w.Cleanup(server.Close)
	authority := w.file("crowd-ca",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	account, checksum := w.file("crowd-account", []byte("nobody")), naming.CAChecksum(string(w.authority))
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var running sync.WaitGroup
	w.Cleanup(func() { cancel(); running.Wait() })
	for id, token := range tokens {
		options := clusteragent.Options{
			ServerURL: w.server.ServerURL, TokenFile: w.file(id, []byte(token)), CAChecksum: checksum,
			APIServer: server.URL, APIServerCAFile: authority, APIServerTokenFile: account, Log: log,
		}
		running.Go(func() {
			if err := clusteragent.Run(ctx, options); err != nil {
				w.Error(err)
			}
		})
	}
}

func (w *world) awaitAgents(within time.Duration) {
	w.Helper()
	w.await(within, func() (string, error) {
		if n := w.connected(); n < agents+1 {
			return fmt.Sprintf("%d agents are connected", n), nil
		}
		return "", nil
	})
}

// connected returns the number of connected agents. It returns 0 if the server does not answer.
func (w *world) connected() int {
	values, err := w.metrics()
	if err != nil {
		return 0
	}
	return int(values[`drover_tunnel_sessions{kind="agent"}`])
}

// metrics returns the server's metrics that have a single value.
func (w *world) metrics() (map[string]float64, error) {
	response, err := http.Get("http://" + w.server.Health + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values, lines.Err()
}

// sight is the usage of an idle server.
type sight struct{ live, resident, goroutines, percent float64 }

// look waits until the server is idle and has collected its garbage.
func (w *world) look() sight {
	w.Helper()
	cpu := func() float64 { return plane.UsageOfProcess(w, w.server.PID()).CPU.Seconds() }
	const between = 5 * time.Second
	last := 1000.0
	for calm := 0; calm < 3; {
		begin := cpu()
		time.Sleep(between)
		now := (cpu() - begin) / between.Seconds() * 100
		if calm++; now > 10 && now < last*0.8 || now > 80 {
			calm = 0
		}
		last = now
	}
	begun := time.Now()
	var values map[string]float64
	w.await(3*time.Minute, func() (string, error) { // the server collects at least every two minutes
		var err error
		values, err = w.metrics()
		if err != nil || values["go_memstats_last_gc_time_seconds"] < float64(begun.Unix()+1) {
			return "the server has not collected its garbage ", err
		}
		return "", nil
	})
	// The next collection starts at twice the live heap plus the size of the stacks.
	stacks := values["go_memstats_stack_inuse_bytes"]
	return sight{
		live: (values["go_memstats_next_gc_bytes"] + stacks) / 2, resident: values["process_resident_memory_bytes"],
		goroutines: values["go_goroutines"], percent: last,
	}
}

// storm restarts the server while a user sends requests for the cluster.
func (w *world) storm() Storm {
	w.Helper()
	client, err := rest.HTTPClientFor(w.tunnel)
	w.must(err)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.server.Stop()
	begin := time.Now()
	var asking sync.WaitGroup
	asked := &live{begin: begin}
	asking.Go(func() { asked.ask(ctx, client, w.tunnel.Host+"/api/v1/namespaces/"+small+"/configmaps/small") })
	w.server.Start()
	w.server.AwaitReady()
	out := Storm{Agents: agents, ReadySeconds: round(time.Since(begin).Seconds(), 1), Target: stormTarget}
	w.awaitAgents(5 * time.Minute)
	out.Seconds = round(time.Since(begin).Seconds(), 1)
	w.await(2*time.Minute, func() (string, error) {
		if !asked.answered() {
			return "the user got no answer", nil
		}
		return "", nil
	})
	cancel()
	asking.Wait()
	out.Within = out.Seconds <= stormTarget
	out.UserSeconds, out.Requests, out.Refused = round(asked.first.Seconds(), 1), len(asked.took), asked.refused
	out.UserP50, out.UserMost = round(quantile(asked.took, 0.5), 1), round(quantile(asked.took, 1), 1)
	return out
}

// live is a user that keeps sending requests. Failures before the first success do not count, because server and agent
// are still starting.
type live struct {
	begin time.Time

	mu      sync.Mutex
	first   time.Duration
	took    []time.Duration
	refused int
}

func (l *live) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first > 0
}

func (l *live) ask(ctx context.Context, client *http.Client, address string) {
	for ctx.Err() == nil {
		begin := time.Now()
		ok := get(ctx, client, address) == nil
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		if ok && l.first == 0 {
			l.first = time.Since(l.begin)
		}
		if l.first > 0 {
			l.took = append(l.took, time.Since(begin))
			if !ok {
				l.refused++
			}
		}
		l.mu.Unlock()
		time.Sleep(betweenRequests)
	}
}

// get sends one request, without the retries of client-go.
func get(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
