package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/tests/contract/plane"
)

const (
	// result is the environment variable with the file for the result.
	result = "DROVER_BENCH"
	// browsers is how many streams are open at the same time. One user may have ten.
	browsers = 9
	// changes is how often a status changes, once in each period.
	changes = 30
	period  = 500 * time.Millisecond
)

// Figures are the costs of the web UI with 1,000 clusters and 10,000 machines.
type Figures struct {
	// FirstLoadKB is what the browser loads until the first page is complete, without rows, in 1,000 bytes.
	FirstLoadKB float64 `json:"firstLoadKB"`
	// MillicoresPerBrowser is the processor time of drover ui for each open page, while two statuses change each
	// second.
	MillicoresPerBrowser float64 `json:"millicoresPerBrowser"`
	// ChangeToRowMS and ChangeToScreenMS are medians of the time from a change of a status, in milliseconds.
	ChangeToRowMS    float64 `json:"changeToRowMS"`
	ChangeToScreenMS float64 `json:"changeToScreenMS"`
}

// TestBench measures the figures. It runs when DROVER_BENCH names a file for the result.
func TestBench(t *testing.T) {
	target := os.Getenv(result)
	if target == "" {
		t.Skip(result + " is not set: use `make bench`")
	}
	api, kubeconfig := manyInMemory(t)
	address, pid := droverUI(t, kubeconfig)
	var figures Figures
	fromBrowser := filepath.Join(t.TempDir(), "figures.json")
	n := 0
	environment := map[string]string{"URL": address, "RESULT": fromBrowser, "CHANGES": strconv.Itoa(changes)}
	browse(t, "bench", environment, steps{"change": func() string { n++; return change(t, api, n) }})
	data, err := os.ReadFile(fromBrowser)
	check(t, err)
	check(t, json.Unmarshal(data, &figures))
	figures.streams(t, api, address, pid)
	out, err := json.Marshal(figures)
	check(t, err)
	t.Log(string(out))
	check(t, os.WriteFile(target, out, 0o600))
}

// droverUI runs drover ui in a process of its own.
func droverUI(t *testing.T, kubeconfig string) (address string, pid int) {
	t.Helper()
	program, err := plane.Binary("drover")
	check(t, err)
	process := exec.CommandContext(context.WithoutCancel(t.Context()), program, "ui", "--no-browser", "--kubeconfig",
		kubeconfig)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	check(t, err)
	check(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := process.Wait(); err != nil {
			t.Errorf("drover ui: %v", err)
		}
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	return strings.TrimSpace(address), process.Process.Pid
}

// change gives the first cluster another message. It returns the time of the change in milliseconds since 1970.
func change(t *testing.T, api *memkube.Server, n int) string {
	t.Helper()
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Waiting","message":%q}]}}`,
		message(n))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
		"http://memkube/apis/provisioning.cattle.io/v1/namespaces/"+fleet+"/clusters/cluster-0000/status",
		strings.NewReader(body))
	check(t, err)
	request.Header.Set("Content-Type", "application/merge-patch+json")
	begin := time.Now()
	answer, err := api.RoundTrip(request)
	check(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("change the status: %s", answer.Status)
	}
	return strconv.FormatInt(begin.UnixMilli(), 10)
}

func message(n int) string { return fmt.Sprintf("change %d.", n) }

// streams measures streams without a browser.
func (f *Figures) streams(t *testing.T, api *memkube.Server, address string, pid int) {
	t.Helper()
	base, secret, _ := strings.Cut(address, "#token=")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := make(chan string, 1<<16)
	for i := range browsers {
		lines := follow(ctx, t, base, secret)
		go func() {
			for line := range lines {
				if i == 0 {
					events <- line
				}
			}
		}()
	}
	for synced := 0; synced < 2; {
		if strings.HasPrefix(<-events, "event: synced") {
			synced++
		}
	}
	before, begin := plane.UsageOfProcess(t, pid), time.Now()
	var times []time.Duration
	tick := time.NewTicker(period)
	defer tick.Stop()
	for n := range changes {
		at := time.Now()
		change(t, api, 1000+n)
		for !strings.Contains(<-events, message(1000+n)) {
		}
		times = append(times, time.Since(at))
		<-tick.C
	}
	used := plane.UsageOfProcess(t, pid).CPU - before.CPU
	f.MillicoresPerBrowser = round(1000 * used.Seconds() / time.Since(begin).Seconds() / browsers)
	slices.Sort(times)
	f.ChangeToRowMS = round(float64(times[len(times)/2].Microseconds()) / 1000)
}

// follow opens a stream and returns its lines.
func follow(ctx context.Context, t *testing.T, base, secret string) <-chan string {
	t.Helper()
	target, err := url.JoinPath(base, "api/v1/stream")
	check(t, err)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	check(t, err)
	request.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultClient.Do(request) //nolint:bodyclose // the reading goroutine closes it
	check(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("open a stream: %s", answer.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer answer.Body.Close()
		scanner := bufio.NewScanner(answer.Body)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}

func round(value float64) float64 { return math.Round(value*10) / 10 }
