package clusterproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// With many concurrent users and with clusters that disconnect and reconnect, every answer belongs to its caller and
// comes from the requested cluster.
func TestCrowd_EveryAnswerIsForWhoAsked(t *testing.T) {
	const clients, clusters, requests = 64, 5, 30
	w := newWorld(t)
	servers := make([]*httptest.Server, clusters)
	for c := range clusters {
		name := fmt.Sprint("k", c)
		w.cluster(name, nil)
		servers[c] = httptest.NewServer(whoami(name))
		t.Cleanup(servers[c].Close)
		w.connect("c-m-"+name, servers[c])
	}
	tokens := make([]string, clients)
	for i := range clients {
		tokens[i] = w.user(fmt.Sprint("user", i), "k0", "k1", "k2", "k3", "k4")
	}
	server := w.proxy()
	server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = clients

	stop := make(chan struct{})
	var flapping sync.WaitGroup
	flapping.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-stop:
				return
			default:
			}
			c := round % clusters
			switch round % 3 {
			case 0:
				servers[c].CloseClientConnections() // while requests are running
			case 1:
				w.mu.Lock()
				delete(w.backends, fmt.Sprint("c-m-k", c))
				w.mu.Unlock()
			case 2:
				w.connect(fmt.Sprint("c-m-k", (c+clusters-1)%clusters), servers[(c+clusters-1)%clusters])
			}
		}
	})
	var good, lost atomic.Int64
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			for range requests {
				cluster := "k" + strconv.Itoa(rand.IntN(clusters))
				answer, err := get(t.Context(), server, "/k8s/clusters/c-m-"+cluster+"/api/v1/pods/"+strconv.Itoa(i),
					tokens[i])
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				body, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				var s seen
				switch {
				case answer.StatusCode == http.StatusServiceUnavailable || err != nil:
					lost.Add(1)
				case answer.StatusCode != http.StatusOK || json.Unmarshal(body, &s) != nil:
					t.Errorf("client %d: %d %s", i, answer.StatusCode, body)
				case s.Cluster != cluster || s.Target != "/api/v1/pods/"+strconv.Itoa(i) ||
					s.Header.Get("Impersonate-User") != fmt.Sprint("user", i):
					t.Errorf("client %d requested %s and got %+v", i, cluster, s)
				default:
					good.Add(1)
				}
			}
		})
	}
	asking.Wait()
	close(stop)
	flapping.Wait()
	if good.Load() == 0 || lost.Load() == 0 {
		t.Errorf("%d answers and %d lost: the test made no requests", good.Load(), lost.Load())
	}
	t.Logf("%d answers, %d lost", good.Load(), lost.Load())
}
