package capi

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// NewLogger writes Cluster API's log lines to ours. Its lines tell operators of Cluster API what it does, which is debugging for ours;
// its errors are retried and are warnings.
func NewLogger(log logrus.FieldLogger) logr.Logger { return logr.New(&sink{log: log}) }

// SetProcessLogger sets the logger of controller-runtime for the whole process. It is for programs, not for hosts that embed Drover:
// without it controller-runtime complains once about having none.
func SetProcessLogger(log logrus.FieldLogger) { ctrllog.SetLogger(NewLogger(log)) }

type sink struct {
	log  logrus.FieldLogger
	name string
}

var _ logr.LogSink = (*sink)(nil)

// Init takes no notice of call depth: we print no file names.
func (*sink) Init(logr.RuntimeInfo) {}

// Enabled passes the lines of the two lowest verbosities on; whether debug lines are shown is the logger's business.
func (*sink) Enabled(level int) bool { return level <= 1 }

// Info writes a debug line.
func (s *sink) Info(_ int, msg string, pairs ...any) { s.with(pairs).Debug(msg) }

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
func (s *sink) WithValues(pairs ...any) logr.LogSink { return &sink{log: s.with(pairs), name: s.name} }

// WithName returns a sink with a longer name.
func (s *sink) WithName(name string) logr.LogSink {
	if s.name != "" {
		name = s.name + "." + name
	}
	return &sink{log: s.log.WithField("logger", name), name: name}
}

func (s *sink) with(pairs []any) logrus.FieldLogger {
	fields := logrus.Fields{}
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[fmt.Sprint(pairs[i])] = printable(pairs[i+1])
	}
	return s.log.WithFields(fields)
}

// printable turns a value into text; objects are given as references by Cluster API already.
func printable(value any) any {
	switch v := value.(type) {
	case logr.Marshaler:
		return v.MarshalLog()
	case fmt.Stringer:
		return v.String()
	default:
		return v
	}
}
