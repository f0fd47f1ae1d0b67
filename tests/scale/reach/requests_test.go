package reach

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/tests/contract/plane"
)

// Get is the latency of a small GET, at the API server itself and through proxy, tunnel and agent. The requests
// alternate, so that both have the same conditions.
type Get struct {
	Requests  int     `json:"requests"`
	DirectP50 float64 `json:"directP50Milliseconds"`
	TunnelP50 float64 `json:"tunnelP50Milliseconds"`
	DirectP99 float64 `json:"directP99Milliseconds"`
	TunnelP99 float64 `json:"tunnelP99Milliseconds"`
	AddedP50  float64 `json:"addedP50Milliseconds"`
	Ratio     float64 `json:"ratio"`
	// BareRatio is the ratio for two bare proxies in a row.
	BareRatio float64 `json:"bareRatio"`
	// ServerCPU and AgentCPU are the CPU times of one request in the two processes in between. They depend less on the
	// load of the machine.
	ServerCPU float64 `json:"serverCPUMicroseconds"`
	AgentCPU  float64 `json:"agentCPUMicroseconds"`
	Target    float64 `json:"target"`
	Within    bool    `json:"within"`
}

const (
	smallRequests = 3000
	warmUp        = 300
	getTarget     = 1.5
)

func (w *world) gets() Get {
	w.Helper()
	atOnce, bare := w.alternate(w.bare())
	server, agent := w.spent()
	direct, tunnel := w.alternate(w.tunnel)
	serverNow, agentNow := w.spent()
	each := func(spent time.Duration) float64 {
		return round(float64(spent.Microseconds())/(warmUp+smallRequests), 0)
	}
	d, t := quantile(direct, 0.5), quantile(tunnel, 0.5)
	return Get{
		Requests: smallRequests, DirectP50: round(d, 3), TunnelP50: round(t, 3),
		DirectP99: round(quantile(direct, 0.99), 3),
		TunnelP99: round(quantile(tunnel, 0.99), 3), AddedP50: round(t-d, 3), ServerCPU: each(serverNow - server),
		AgentCPU: each(agentNow - agent),
		Ratio:    round(t/d, 2), Target: getTarget, Within: t/d <= getTarget,
		BareRatio: round(quantile(bare, 0.5)/quantile(atOnce, 0.5), 2),
	}
}

// alternate returns the latencies of small GETs at the API server itself and through another connection.
func (w *world) alternate(way *rest.Config) (direct, other []time.Duration) {
	w.Helper()
	one := func(client kubernetes.Interface) time.Duration {
		begin := time.Now()
		_, err := client.CoreV1().ConfigMaps(small).Get(w.Context(), small, metav1.GetOptions{})
		w.must(err)
		return time.Since(begin)
	}
	here, there := w.client(w.direct), w.client(way)
	for i := range warmUp + smallRequests {
		a, b := one(here), one(there)
		if i >= warmUp {
			direct, other = append(direct, a), append(other, b)
		}
	}
	return direct, other
}

// List is the throughput of a long answer: a list of large ConfigMaps.
type List struct {
	// Compressed is client-go's default. The API server then compresses, which takes most of the time. Without
	// compression, the connection is the limit.
	Compressed         bool    `json:"compressed"`
	MiB                float64 `json:"mib"`
	DirectMiBPerSecond float64 `json:"directMiBPerSecond"`
	TunnelMiBPerSecond float64 `json:"tunnelMiBPerSecond"`
	Ratio              float64 `json:"ratio"`
	// BareRatio is the ratio for two bare proxies in a row.
	BareRatio float64 `json:"bareRatio"`
	// ServerCPU and AgentCPU are the CPU times of one list in the two processes in between.
	ServerCPU float64 `json:"serverCPUSeconds"`
	AgentCPU  float64 `json:"agentCPUSeconds"`
	Target    float64 `json:"target"`
	Within    bool    `json:"within"`
}

// spent returns the CPU times of server and agent so far.
func (w *world) spent() (server, agent time.Duration) {
	w.Helper()
	return plane.UsageOfProcess(w, w.server.PID()).CPU, plane.UsageOfProcess(w, w.agent.Process.Pid).CPU
}

const (
	largeConfigMaps = 60
	largeBytes      = 850 << 10
	largeLists      = 7
	listTarget      = 0.7
)

func (w *world) lists() []List {
	w.Helper()
	for i := range largeConfigMaps {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%02d", i)},
			Data: map[string]string{"data": noise(uint64(i), largeBytes)}}
		_, err := w.downstream.CoreV1().ConfigMaps(large).Create(w.Context(), config, metav1.CreateOptions{})
		w.must(err)
	}
	bare := w.bare()
	return []List{w.list(bare, false), w.list(bare, true)}
}

func (w *world) list(bare *rest.Config, compressed bool) List {
	w.Helper()
	bareSpeed, atOnce, _ := w.compare(bare, compressed)
	server, agent := w.spent()
	t, d, bytes := w.compare(w.tunnel, compressed)
	serverNow, agentNow := w.spent()
	each := func(spent time.Duration) float64 { return round(spent.Seconds()/(1+largeLists), 2) }
	return List{
		Compressed: compressed, MiB: round(mebibytes(bytes), 1), DirectMiBPerSecond: round(d, 1),
		TunnelMiBPerSecond: round(t, 1), BareRatio: round(bareSpeed/atOnce, 2),
		Ratio: round(t/d, 2), ServerCPU: each(serverNow - server), AgentCPU: each(agentNow - agent), Target: listTarget,
		Within: t/d >= listTarget,
	}
}

// compare returns the throughput of lists through a connection and at the API server itself, in MiB per second, and
// their length.
func (w *world) compare(way *rest.Config, compressed bool) (other, direct float64, bytes int64) {
	w.Helper()
	open := func(config *rest.Config) kubernetes.Interface {
		asks := rest.CopyConfig(config)
		asks.DisableCompression = !compressed
		return w.client(asks)
	}
	here, there := open(w.direct), open(way)
	var atOnce, through []time.Duration
	for i := range 1 + largeLists {
		a, n := w.readAll(here)
		b, m := w.readAll(there)
		if n != m {
			w.Fatalf("the list has %d bytes from the API server, and %d through the tunnel", n, m)
		}
		if bytes = n; i > 0 {
			atOnce, through = append(atOnce, a), append(through, b)
		}
	}
	speed := func(all []time.Duration) float64 { return mebibytes(bytes) / quantile(all, 0.5) * 1000 }
	return speed(through), speed(atOnce), bytes
}

// readAll reads a list without decoding it, because decoding takes the same time on either connection.
func (w *world) readAll(client kubernetes.Interface) (time.Duration, int64) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	stream, err := client.CoreV1().RESTClient().Get().Namespace(large).Resource("configmaps").Stream(ctx)
	w.must(err)
	defer stream.Close()
	n, err := io.Copy(io.Discard, stream)
	w.must(err)
	return time.Since(begin), n
}

// noise returns a constant text that hardly compresses.
func noise(seed uint64, bytes int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, bytes)
	for i := range out {
		out[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[random.IntN(64)]
	}
	return string(out)
}
