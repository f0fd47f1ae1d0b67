package reach

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
)

// result is the environment variable with the file for the result.
const result = "DROVER_BENCH"

func TestMain(m *testing.M) {
	if target := os.Getenv(bareTarget); target != "" {
		serveBare(target)
	}
	if os.Getenv(result) == "" {
		os.Exit(m.Run()) // no test needs a plane
	}
	logrus.SetLevel(logrus.ErrorLevel) // the library of the agents logs an error for each session that ends
	os.Exit(plane.Main(m, plane.Options{
		Components: []string{managementplane.ControllerManager},
		Controllers: []string{
			"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
			"serviceaccount-token-controller",
			"root-ca-certificate-publisher-controller",
		},
		WithoutCRDs: true,
	}))
}

// Figures is the result of one run. Each part has its target and whether it was reached.
type Figures struct {
	Get  Get    `json:"get"`
	List []List `json:"list"`
	// Agent is the process of the cluster's agent.
	Agent    Agent    `json:"agent"`
	Watches  Watches  `json:"watches"`
	Sessions Sessions `json:"sessions"`
	Storm    Storm    `json:"storm"`
}

// TestBench measures the figures of docs/performance.md about reaching clusters. It runs when DROVER_BENCH names a file
// for the result.
func TestBench(t *testing.T) {
	target := os.Getenv(result)
	if target == "" {
		t.Skip(result + " is not set: use `make bench`")
	}
	w := newWorld(t)
	var figures Figures
	memory := w.observe()
	for _, part := range []struct {
		name    string
		measure func(*world) any
	}{
		{"get", func(w *world) any { figures.Get = w.gets(); return figures.Get }},
		{"list", func(w *world) any { figures.List = w.lists(); return figures.List }},
		{"agent", func(w *world) any { figures.Agent = w.agentMemory(memory); return figures.Agent }},
		{"watches", func(w *world) any { figures.Watches = w.watches(); return figures.Watches }},
		{"crowd", func(w *world) any { figures.Sessions, figures.Storm = w.crowd(); return figures.Storm }},
	} {
		t.Run(part.name, func(t *testing.T) {
			w := w.of(t)
			w.say(part.measure(w))
		})
	}
	out, err := json.Marshal(figures)
	w.must(err)
	w.must(os.WriteFile(target, out, 0o600))
}

// of returns the world for a part of the test.
func (w *world) of(t *testing.T) *world {
	part := *w
	part.T = t
	return &part
}

// say prints figures as soon as they are known.
func (w *world) say(figures any) {
	out, err := json.Marshal(figures)
	w.must(err)
	w.Logf("%s %T %s", time.Now().Format(time.TimeOnly), figures, out)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// await waits until missing returns "". Other texts describe what is missing.
func (w *world) await(within time.Duration, missing func() (string, error)) {
	w.Helper()
	plane.Until(w, within, func() string {
		text, err := missing()
		if err != nil {
			return fmt.Sprint(text, err)
		}
		return text
	})
}

// quantile returns a quantile of durations in milliseconds.
func quantile(all []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return float64(sorted[int(q*float64(len(sorted)-1))]) / float64(time.Millisecond)
}

func round(value float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(value*scale) / scale
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
