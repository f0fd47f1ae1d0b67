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

	"github.com/drover-io/drover/pkg/reach/clusteragent"
	"github.com/drover-io/drover/tests/contract/plane"
)

// Sessions is what the server keeps for a session of an agent: all that it has more than before they came, its clients of these clusters among it.
type Sessions struct {
	Agents int `json:"agents"`
	// LiveKiB is live heap and stacks for each, ResidentKiB the memory of the process, which holds what is free again, too.
	LiveKiB     float64 `json:"liveKiBPerSession"`
	ResidentKiB float64 `json:"residentKiBPerSession"`
	Goroutines  float64 `json:"goroutinesPerSession"`
	// Percent is what their signs of life cost the server.
	Percent float64 `json:"serverPercentOfOneCore"`
	Target  float64 `json:"target"`
	Within  bool    `json:"within"`
}

// Storm is how all agents come back when the server was restarted, while a user goes on asking for a cluster.
type Storm struct {
	Agents int `json:"agents"`
	// Seconds is from the end of the old server until all are connected to the new one, and ReadySeconds until that was ready.
	Seconds      float64 `json:"seconds"`
	ReadySeconds float64 `json:"readySeconds"`
	// UserSeconds is from the end of the old server until the user was answered. From then on, Requests were asked and Refused of them refused.
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
		Goroutines: round((after.goroutines-before.goroutines)/agents, 1), Percent: round(after.percent-before.percent, 1), Target: sessionTarget,
	}
	sessions.Within = sessions.LiveKiB <= sessionTarget
	w.say(sessions)
	return sessions, w.storm()
}

// populate makes the Clusters and returns the tokens of their agents, by the clusters' IDs.
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
		time.Sleep(time.Second) // it is much to read
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
	w.Logf("%d clusters were made in %s", agents, time.Since(begin).Round(time.Second))
	return found
}

// connect runs the agents, until the test is over. The API server behind them knows nothing and has a version.
func (w *world) connect(tokens map[string]string) {
	w.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(rw, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
			return
		}
		rw.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"there is nothing"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	w.Cleanup(server.Close)
	authority := w.file("crowd-ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	account, checksum := w.file("crowd-account", []byte("nobody")), clusteragent.Checksum(w.authority)
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

// connected is how many agents are; 0 while the server does not say.
func (w *world) connected() int {
	values, err := w.metrics()
	if err != nil {
		return 0
	}
	return int(values[`drover_tunnel_sessions{kind="agent"}`])
}

// metrics are the lines of the server's metrics that have one value.
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

// sight is what the server has, when nothing happens.
type sight struct{ live, resident, goroutines, percent float64 }

// look waits until the server has done what there was to do, and has collected its garbage afterwards.
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
	w.await(3*time.Minute, func() (string, error) { // it collects every two minutes at least
		var err error
		values, err = w.metrics()
		if err != nil || values["go_memstats_last_gc_time_seconds"] < float64(begun.Unix()+1) {
			return "the server has not collected its garbage ", err
		}
		return "", nil
	})
	// The next collection begins when there is twice as much live heap, and as much again as stacks are.
	stacks := values["go_memstats_stack_inuse_bytes"]
	return sight{
		live: (values["go_memstats_next_gc_bytes"] + stacks) / 2, resident: values["process_resident_memory_bytes"],
		goroutines: values["go_goroutines"], percent: last,
	}
}

// storm restarts the server while a user asks for the cluster again and again.
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
			return "the user has no answer", nil
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

// live is a user who goes on asking. What is refused before the first answer does not count: server and agent are on their way.
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

// get asks once, and does not try again as client-go would.
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
