package planstore

import (
	"bytes"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// hostileReport returns the data of a plan Secret whose outputs unpack to many times their size.
func hostileReport(tb testing.TB, size int) map[string][]byte {
	tb.Helper()
	text := bytes.Repeat([]byte("x"), size)
	once, err := nodeplan.EncodeOutput(map[string][]byte{"install": text, render.EtcdProofInstruction: text,
		render.SecretsEncryptStatus: text, nodeplan.OutputAgentError: text})
	if err != nil {
		tb.Fatal(err)
	}
	periodic, err := nodeplan.EncodePeriodicOutput(map[string]plan.PeriodicInstructionOutput{
		render.CaptureAddress: {Stdout: text}, render.EtcdName: {Stderr: text}, "invented": {Stdout: text}})
	if err != nil {
		tb.Fatal(err)
	}
	return map[string][]byte{nodeplan.KeyPlan: []byte("{}"), nodeplan.KeyAppliedOutput: once,
		nodeplan.KeyFailedOutput: once, nodeplan.KeyAppliedPeriodicOutput: periodic,
		nodeplan.KeyProbeStatuses: []byte(`{"invented":{}}`)}
}

// keptBy returns the bytes that the decoded content of one of many plan Secrets takes.
func keptBy(tb testing.TB, data map[string][]byte) uint64 {
	tb.Helper()
	const hosts = 20
	decoded := make([]*planner.PlanSecret, hosts)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range decoded {
		decoded[i] = decode(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p" + strconv.Itoa(i)}, Data: data,
			Type: rkev1.SecretTypeMachinePlan})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(decoded)
	return (max(after.HeapAlloc, before.HeapAlloc) - before.HeapAlloc) / hosts
}

// The planner remembers the decoded plan Secrets of all machines, and each node chooses its reports.
func TestDecode_KeepsLittleOfAHostileReport(t *testing.T) {
	for name, size := range map[string]int{
		"results at the limit of what decisions read": 64 << 10,
		"reports at the budget":                       75 << 10,
		"reports of 42 MiB":                           3 << 20,
	} {
		t.Run(name, func(t *testing.T) {
			data := hostileReport(t, size)
			stored := 0
			for _, value := range data {
				stored += len(value)
			}
			kept := keptBy(t, data)
			t.Logf("%d stored bytes, %d bytes are kept", stored, kept)
			if kept > 300<<10 {
				t.Errorf("%d bytes are kept for a machine", kept)
			}
		})
	}
}
