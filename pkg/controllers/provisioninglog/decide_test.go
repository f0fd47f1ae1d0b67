package provisioninglog_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/provisioninglog"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)

const (
	stamp    = "2026-03-01T12:00:00Z"
	conflict = "cannot write: the object has been modified; " +
		"please apply your changes to the latest version and try again"
)

func status(ready bool, provisioned, message, updated string) provv1.ClusterStatus {
	return provv1.ClusterStatus{ClusterName: id, Ready: ready, Conditions: []rkev1.GenericCondition{
		{Type: provv1.ConditionUpdated, Status: "False", Message: updated},
		{Type: provv1.ConditionProvisioned, Status: provisioned, Message: message},
	}}
}

func configMap(log, last string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"log": log, "last": last}}
}

func TestDecide_Lines(t *testing.T) {
	const before = "2026-03-01T11:59:59Z [INFO ] earlier\n"
	for name, c := range map[string]struct {
		status provv1.ClusterStatus
		log    *corev1.ConfigMap
		want   string
		last   string
	}{
		"no condition": {status: provv1.ClusterStatus{ClusterName: id}},
		"no message":   {status: status(false, "Unknown", "", "x")},
		"a first message": {status: status(false, "Unknown", "waits", ""), want: stamp + " [INFO ] waits\n",
			last: "waits"},
		"a next message": {status(false, "Unknown", "waits", ""), configMap(before, "earlier"),
			before + stamp + " [INFO ] waits\n", "waits"},
		"the same message": {status: status(false, "Unknown", "earlier", ""), log: configMap(before, "earlier")},
		"a failure": {status: status(false, "False", "broken", ""), want: stamp + " [ERROR] broken\n",
			last: "broken"},
		"a message of Updated": {status: status(true, "True", "", "upgrades"), want: stamp + " [INFO ] upgrades\n",
			last: "upgrades"},
		"the end": {status(true, "True", "", ""), configMap(before, "earlier"),
			before + stamp + " [INFO ] provisioning done\n", "provisioning done"},
		"an end without a beginning": {status: status(true, "True", "", "")},
		"not ready yet":              {status: status(false, "True", "", "")},
		"a conflict": {status: status(false, "False", conflict, ""),
			want: stamp + " [ERROR] Transient error encountered: " + conflict + "\n",
			last: "Transient error encountered: " + conflict},
		"several lines": {status: status(false, "Unknown", "a\n b", ""), want: stamp + " [INFO ] a b\n", last: "a b"},
		"a line that is too long": {status: status(false, "Unknown", strings.Repeat("x", 10000), ""),
			log: configMap(before, "earlier"), last: strings.Repeat("x", 10000)},
		"a secret": {status: status(false, "False", "password=hunter2 is wrong", ""),
			want: stamp + " [ERROR] password=*** is wrong\n", last: "password=*** is wrong"},
		"an empty log": {status(false, "Unknown", "waits", ""), &corev1.ConfigMap{}, stamp + " [INFO ] waits\n",
			"waits"},
		"other text": {status(false, "Unknown", "waits", ""), configMap("note\n", ""),
			"note\n" + stamp + " [INFO ] waits\n", "waits"},
	} {
		t.Run(name, func(t *testing.T) {
			d := provisioninglog.Decide(provisioninglog.Facts{Namespace: id, Status: c.status, Log: c.log, Now: now})
			if d.After != 0 || (d.Log != nil) != (c.last != "") {
				t.Fatalf("decided %+v, want a line %t", d, c.last != "")
			}
			if d.Log != nil && (d.Log.Data["log"] != c.want || d.Log.Data["last"] != c.last) {
				t.Errorf("log %q, last %q", d.Log.Data["log"], d.Log.Data["last"])
			}
		})
	}
}

func TestDecide_OldestLinesAreRemoved(t *testing.T) {
	line := "2026-03-01T11:00:00Z [INFO ] " + strings.Repeat("x", 70) + "\n"
	d := provisioninglog.Decide(provisioninglog.Facts{Namespace: id, Status: status(false, "Unknown", "waits", ""),
		Log: configMap(strings.Repeat(line, 100), "x"), Now: now})
	end := stamp + " [INFO ] waits\n"
	if want := strings.Repeat(line, (10000-len(end))/len(line)) + end; d.Log.Data["log"] != want {
		t.Errorf("the log has %d bytes, want %d", len(d.Log.Data["log"]), len(want))
	}
}

func TestDecide_OneLineInEachSecond(t *testing.T) {
	f := provisioninglog.Facts{Namespace: id, Status: status(false, "Unknown", "waits", ""),
		Log: configMap("2026-03-01T11:59:00Z [INFO ] a\n"+stamp+" [INFO ] b\n", "b"), Now: now}
	if d := provisioninglog.Decide(f); d.Log != nil || d.After != 750*time.Millisecond {
		t.Errorf("decided %+v", d)
	}
	f.Now = now.Add(750 * time.Millisecond)
	if d := provisioninglog.Decide(f); d.Log == nil {
		t.Error("the next second gets no line")
	}
}

func TestDecide_OtherNamespacesOnlyKeepTheirLog(t *testing.T) {
	f := provisioninglog.Facts{Namespace: "local", Status: status(false, "Unknown", "waits", ""), Now: now}
	if d := provisioninglog.Decide(f); d.Log != nil {
		t.Errorf("decided %+v", d)
	}
	f.Log = configMap("", "")
	if d := provisioninglog.Decide(f); d.Log == nil {
		t.Error("an existing log gets no line")
	}
}
