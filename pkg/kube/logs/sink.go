package logs

import (
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
)

// Logr writes the lines of a library of Kubernetes to ours, those of its lowest verbosity at the given level. What it calls errors is tried
// again, as a rule, and is a warning for us.
func Logr(log logrus.FieldLogger, level logrus.Level) logr.Logger {
	return logr.New(&sink{log: log, level: level})
}

type sink struct {
	log   logrus.FieldLogger
	level logrus.Level
	name  string
}

var _ logr.LogSink = (*sink)(nil)

// Init takes no notice of call depth: we print no file names.
func (*sink) Init(logr.RuntimeInfo) {}

// Enabled passes the lines of the two lowest verbosities on; whether debug lines are shown is the logger's business.
func (*sink) Enabled(level int) bool { return level <= 1 }

// Info writes a line at the level of the sink, or a debug line.
func (s *sink) Info(verbosity int, msg string, pairs ...any) {
	if entry := s.with(pairs); s.level == logrus.InfoLevel && verbosity == 0 {
		entry.Info(msg)
	} else {
		entry.Debug(msg)
	}
}

// expected is what the connections to clusters say on every attempt while a new cluster does not answer yet, once a second.
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

// ours are fields of controller-runtime and Cluster API, by the names that our own lines have for them.
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

// printable turns a value into one that every format can print; objects are given as references by Cluster API already.
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
