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

// New makes a logger. Its errors name what would be right, and not where the values come from.
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
	// current is where the lines of libraries go that can be told once only.
	current atomic.Pointer[logrus.Logger]
)

// Libraries sends the lines of all libraries in the process to a logger: klog, controller-runtime, wrangler and lasso, gRPC, OpenTelemetry, and
// the standard library with the HTTP servers. It is for programs: a host that embeds Drover has loggers of its own.
func Libraries(log *logrus.Logger) {
	current.Store(log)
	// wrangler and lasso use the standard logger.
	logrus.SetOutput(log.Out)
	logrus.SetLevel(log.GetLevel())
	logrus.SetFormatter(log.Formatter)
	once.Do(func() { // klog and gRPC may be told only before they are used, and controller-runtime listens only once
		ctrllog.SetLogger(logr.New(&sink{log: follower{component: "cluster-api"}, level: logrus.DebugLevel}))
		klog.SetLoggerWithOptions(logr.New(&sink{log: follower{}, level: logrus.InfoLevel}), klog.ContextualLogger(true))
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, warnings("grpc"), io.Discard)) // errors are repeated as warnings
		stdlog.SetFlags(0)
		stdlog.SetOutput(warnings(""))
	})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.WithField("component", "tracing").WithError(err).Warn("Traces are lost") }))
}

// follower passes lines on to the logger that is current then, as those of a component if it has one.
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

// warnings makes warnings of the lines of a component that knows only text.
type warnings string

// Write implements io.Writer; one call is one line.
func (component warnings) Write(line []byte) (int, error) {
	follower{component: string(component)}.entry().Warn(strings.TrimSpace(string(line)))
	return len(line), nil
}
