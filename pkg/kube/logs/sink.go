package logs

import (
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
)

// Logr writes the lines of a Kubernetes library to log, those of the lowest verbosity at the given level. The library
// usually retries after its errors, so Drover logs them as warnings.
func Logr(log logrus.FieldLogger, level logrus.Level) logr.Logger {
	return logr.New(&sink{log: log, level: level})
}

type sink struct {
	log   logrus.FieldLogger
	level logrus.Level
	name  string
}

var _ logr.LogSink = (*sink)(nil)

// Init ignores the call depth, because lines contain no file names.
func (*sink) Init(logr.RuntimeInfo) {}

// Enabled accepts the two lowest verbosities. The logger decides whether to show debug lines.
func (*sink) Enabled(level int) bool { return level <= 1 }

// Info writes a line at the level of the sink, or a debug line.
func (s *sink) Info(verbosity int, msg string, pairs ...any) {
	if entry := s.with(pairs); s.level == logrus.InfoLevel && verbosity == 0 {
		entry.Info(msg)
	} else {
		entry.Debug(msg)
	}
}

// expected is the message of each connection attempt, once a second, while a new cluster does not answer yet.
const expected = "Connect failed"

// Error writes a warning.
func (s *sink) Error(err error, msg string, pairs ...any) {
	entry := s.with(pairs)
	if err != nil {
		entry = entry.WithField(logrus.ErrorKey, err.Error())
	}
	if msg == expected {
		entry.Debug(msg)
		return
	}
	entry.Warn(msg)
}

// WithValues returns a sink with further fields.
func (s *sink) WithValues(pairs ...any) logr.LogSink {
	return &sink{log: s.with(pairs), level: s.level, name: s.name}
}

// WithName returns a sink with a longer name.
func (s *sink) WithName(name string) logr.LogSink {
	if s.name != "" {
		name = s.name + "." + name
	}
	return &sink{log: s.log.WithField("logger", name), level: s.level, name: name}
}

// ours maps fields of controller-runtime and Cluster API to the names in Drover's own lines.
var ours = map[string]string{"Cluster": "cluster", "Machine": "machine"}

func (s *sink) with(pairs []any) logrus.FieldLogger {
	fields := logrus.Fields{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key := fmt.Sprint(pairs[i])
		if reference, ok := pairs[i+1].(klog.ObjectRef); ok && ours[key] != "" {
			fields["namespace"], fields[ours[key]] = reference.Namespace, reference.Name
			continue
		}
		fields[key] = printable(pairs[i+1])
	}
	return s.log.WithFields(fields)
}

// printable converts a value so that every format can print it. Cluster API already logs objects as references.
func printable(value any) any {
	switch v := value.(type) {
	case nil, string, bool, int, int32, int64, uint, uint32, uint64, float32, float64:
		return v
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	case logr.Marshaler:
		return v.MarshalLog()
	}
	if _, err := json.Marshal(value); err != nil {
		return fmt.Sprintf("%+v", value)
	}
	return value
}
