package clusterproxy

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// A log at level info receives one message per Record, with the known fields only.
func TestLogRecords(t *testing.T) {
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	begun := Record{
		Stage: StageStarted, Time: noon, RequestID: "r-1", User: "jane", Cluster: "c-m-a", Verb: "watch", Method: "GET",
		Path: "/api/v1/pods", LongRunning: true,
	}
	ended := begun
	ended.Stage, ended.Impersonated, ended.Downstream, ended.TokenID = StageEnded, "joe", "drover:joe", "t-1"
	ended.Status, ended.Cut, ended.Duration, ended.Received, ended.Sent = 200, true, time.Second, 3, 4
	fields := logrus.Fields{
		"stage": "started", "requestID": "r-1", "user": "jane", "clusterID": "c-m-a", "verb": "watch", "method": "GET",
		"path": "/api/v1/pods", "longRunning": true,
		"received": "2026-11-26T12:00:00Z",
	}
	more := logrus.Fields{
		"stage": "ended", "impersonated": "joe", "downstreamUser": "drover:joe", "tokenID": "t-1", "status": 200,
		"cut": true, "duration": "1s",
		"bytesReceived": int64(3), "bytesSent": int64(4),
	}
	for name, c := range map[string]struct {
		level  logrus.Level
		entry  bool
		record Record
		want   []logrus.Fields
	}{
		"the start of a request": {logrus.InfoLevel, false, begun, []logrus.Fields{fields}},
		"the end of a request":   {logrus.InfoLevel, false, ended, []logrus.Fields{merged(fields, more)}},
		"an entry of a log": {logrus.DebugLevel, true, begun,
			[]logrus.Fields{merged(fields, logrus.Fields{"of": "entry"})}},
		"only warnings":           {logrus.WarnLevel, false, ended, nil},
		"an entry, with warnings": {logrus.WarnLevel, true, ended, nil},
	} {
		t.Run(name, func(t *testing.T) {
			logger, hook := logtest.NewNullLogger()
			logger.SetLevel(c.level)
			var log logrus.FieldLogger = logger
			if c.entry {
				log = logger.WithField("of", "entry")
			}
			logRecords(log)(c.record)
			var got []logrus.Fields
			for _, entry := range hook.AllEntries() {
				got = append(got, entry.Data)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func merged(all ...logrus.Fields) logrus.Fields {
	out := logrus.Fields{}
	for _, fields := range all {
		maps.Copy(out, fields)
	}
	return out
}
