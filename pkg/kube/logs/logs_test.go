package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	stdlog "log"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lassolog "github.com/rancher/lasso/pkg/log"
	_ "github.com/rancher/wrangler/v3/pkg/generic" // brings lasso's log to the standard logger
	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// lines returns the lines of a JSON log without their times. Each line must have a time.
func lines(t *testing.T, log string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(log) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("not JSON: %q: %v", line, err)
			continue
		}
		at, _ := fields["time"].(string)
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			t.Errorf("time %q: %v", at, err)
		}
		delete(fields, "time")
		out = append(out, fields)
	}
	return out
}

// Every line is one JSON object with the same field names, whichever library wrote it.
func TestLibraries_EveryLineIsJSON(t *testing.T) {
	var out bytes.Buffer
	log, err := New(&out, FormatJSON, "debug")
	if err != nil {
		t.Fatal(err)
	}
	Libraries(log)
	failed := errors.New("line one\nline two")
	cluster := klog.KRef("fleet-default", "demo")
	for _, tc := range []struct {
		who   string
		write func()
		want  []map[string]any
	}{
		{"ours", func() { log.WithField("cluster", "demo").WithError(failed).Info("text") }, []map[string]any{
			{"level": "info", "msg": "text", "cluster": "demo", "error": failed.Error()},
		}},
		{"wrangler", func() { logrus.Errorf("failed %d times", 3) },
			[]map[string]any{{"level": "error", "msg": "failed 3 times"}}},
		{"lasso", func() { lassolog.Errorf("failed %d times", 3) },
			[]map[string]any{{"level": "error", "msg": "failed 3 times"}}},
		{"klog", func() { klog.InfoS("Renewed", "Cluster", cluster, "n", 3) }, []map[string]any{
			{"level": "info", "msg": "Renewed", "namespace": "fleet-default", "cluster": "demo", "n": 3.0},
		}},
		{"klog as text", func() { klog.Warningf("two\nlines %v", failed) },
			[]map[string]any{{"level": "info", "msg": "two\nlines line one\nline two"}}},
		{"klog with an error", func() { klog.ErrorS(failed, "No lease", "value", make(chan int)) }, nil},
		{"klog in detail", func() { klog.V(4).Info("an unread line") }, []map[string]any{}},
		{"controller-runtime", func() {
			ctrllog.Log.WithName("machine").WithValues("controller", "machine", "Machine",
				klog.KRef("fleet-default", "a"), "Cluster", cluster).Info("Reconciled")
		}, []map[string]any{{
			"level": "debug", "msg": "Reconciled", "component": "cluster-api", "logger": "machine",
			"controller": "machine", "namespace": "fleet-default",
			"machine": "a", "cluster": "demo",
		}}},
		{"the standard library", func() { stdlog.Println("http: TLS handshake error") },
			[]map[string]any{{"level": "warning", "msg": "http: TLS handshake error"}}},
		{"gRPC", func() { grpclog.Error("no route") }, nil},
		{"OpenTelemetry", func() { otel.Handle(failed) }, []map[string]any{
			{"level": "warning", "msg": "Traces are lost", "component": "tracing", "error": failed.Error()},
		}},
	} {
		t.Run(tc.who, func(t *testing.T) {
			out.Reset()
			tc.write()
			got := lines(t, out.String())
			if tc.want == nil {
				if len(got) != 1 || got[0]["level"] != "warning" || got[0]["msg"] == "" {
					t.Errorf("lines %v", got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, append([]map[string]any{}, got...)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

// The last logger gets all lines, also those of libraries that accept only one logger.
func TestLibraries_CanBeSetAgain(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		log, err := New(out, FormatText, "info")
		if err != nil {
			t.Fatal(err)
		}
		Libraries(log)
	}
	klog.Info("here")
	ctrllog.Log.Error(nil, "there")
	if first.Len() > 0 || !strings.Contains(second.String(), `level=info msg=here`) ||
		!strings.Contains(second.String(), "there") {
		t.Errorf("the first logger has %q, the second %q", first.String(), second.String())
	}
}

func TestNew_NamesTheAllowedValues(t *testing.T) {
	for _, tc := range [][3]string{
		{"xml", "info", `--log-format: "xml" is unknown; use text or json`},
		{"json", "loud", `--log-level: "loud" is unknown; use debug, info, warning or error`},
	} {
		if _, err := New(&bytes.Buffer{}, tc[0], tc[1]); err == nil || err.Error() != tc[2] {
			t.Errorf("got %v, want %s", err, tc[2])
		}
	}
}
