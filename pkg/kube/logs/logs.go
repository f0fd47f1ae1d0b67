package logs

import (
	"fmt"
	"io"
	stdlog "log"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Formats of a log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// timestamps have milliseconds: several lines in a second are common, and their order matters.
const timestamps = "2006-01-02T15:04:05.000Z07:00"

// New creates a logger. Its errors name the valid values.
func New(out io.Writer, format, level string) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(out)
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %q is unknown; use debug, info, warning or error", level)
	}
	log.SetLevel(parsed)
	switch format {
	case FormatText:
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
	case FormatJSON:
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: timestamps})
	default:
		return nil, fmt.Errorf("--log-format: %q is unknown; use text or json", format)
	}
	return log, nil
}

var (
	once sync.Once
	// current is the logger for libraries whose logger can be set only once.
	current atomic.Pointer[logrus.Logger]
)

// Libraries sends the lines of all libraries in the process to a logger. These are klog, controller-runtime, wrangler
// and lasso, gRPC, OpenTelemetry, and the standard library with the HTTP servers. It is for programs: a host that
// embeds Drover has its own loggers.
func Libraries(log *logrus.Logger) {
	current.Store(log)
	// wrangler and lasso use the standard logger.
	logrus.SetOutput(log.Out)
	logrus.SetLevel(log.GetLevel())
	logrus.SetFormatter(log.Formatter)
	// Klog and gRPC must be configured before their first use, and controller-runtime accepts only one logger.
	once.Do(func() {
		ctrllog.SetLogger(logr.New(&sink{log: follower{component: "cluster-api"}, level: logrus.DebugLevel}))
		klog.SetLoggerWithOptions(logr.New(&sink{log: follower{}, level: logrus.InfoLevel}),
			klog.ContextualLogger(true))
		// Errors are repeated as warnings.
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, warnings("grpc"), io.Discard))
		stdlog.SetFlags(0)
		stdlog.SetOutput(warnings(""))
	})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.WithField("component", "tracing").WithError(err).Warn("Traces are lost")
	}))
}

// follower passes lines on to the current logger, with the component if it has one.
type follower struct {
	logrus.FieldLogger
	component string
}

func (f follower) entry() *logrus.Entry {
	entry := logrus.NewEntry(current.Load())
	if f.component != "" {
		entry = entry.WithField("component", f.component)
	}
	return entry
}

func (f follower) WithField(key string, value any) *logrus.Entry {
	return f.entry().WithField(key, value)
}

func (f follower) WithFields(fields logrus.Fields) *logrus.Entry { return f.entry().WithFields(fields) }

// warnings logs the lines of a text-only component as warnings.
type warnings string

// Write implements io.Writer; one call is one line.
func (component warnings) Write(line []byte) (int, error) {
	follower{component: string(component)}.entry().Warn(strings.TrimSpace(string(line)))
	return len(line), nil
}
