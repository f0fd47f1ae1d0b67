package agent

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// noise returns incompressible output.
func noise(size int) []byte {
	out := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(out) // it never fails
	return out
}

// A report that the API refuses as too large shrinks until it fits, and still explains the failure.
func TestRemote_FailureReportShrinksUntilAccepted(t *testing.T) {
	const size = 20 << 10
	former, err := nodeplan.EncodeOutput(map[string][]byte{"former": noise(size), "a": []byte("of a former plan")})
	if err != nil {
		t.Fatal(err)
	}
	random := "head -c " + strconv.Itoa(size) + " /dev/urandom"
	failing, err := nodeplan.Encode(plan.NodePlan{
		Instructions: []plan.OneTimeInstruction{shell("a", random+"; exit 3")},
		PeriodicInstructions: []plan.PeriodicInstruction{
			{CommonInstruction: shell("kubeconfig", random).CommonInstruction}},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"applied a", "applied former", "failed a", "failed agent-failure", "failed former",
		"periodic kubeconfig"}
	tests := map[string]struct {
		// limit is how many outputs of this size fit.
		limit float64
		kept  []string
	}{
		"all fits":                           {limit: 5, kept: all},
		"all but the output of the run fits": {limit: 3.5, kept: slices.Delete(slices.Clone(all), 2, 3)},
		"no copy of earlier output fits": {limit: 2.5,
			kept: []string{"applied a", "applied former", "failed agent-failure", "periodic kubeconfig"}},
		"only the periodic output fits": {limit: 1.5,
			kept: []string{"failed agent-failure", "periodic kubeconfig"}},
		"only the reason of the failure fits": {limit: 0.5, kept: []string{"failed agent-failure"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, client := newTestRemote(t, secretData(string(failing), nodeplan.KeyAppliedOutput, string(former)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tries := 0
			client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
				if tries++; tries > int(slimPeriodic)+1 {
					cancel() // the same report is sent repeatedly
				}
				total := 0
				for _, value := range action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret).Data {
					total += len(value)
				}
				if float64(total) > tc.limit*size {
					return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(),
						"p",
						field.ErrorList{field.TooLong(field.NewPath("data"), "", int(tc.limit*size))})
				}
				return false, nil, nil
			})
			r.pass(ctx)
			state, err := nodeplan.Parse("ns/p", stored(t, client))
			if err != nil || !state.Failed || state.FailureCount != 1 ||
				len(stored(t, client)[nodeplan.KeyLastApplyTime]) == 0 {
				t.Fatalf("after %d tries: failed %v, %d failures, %v", tries, state.Failed, state.FailureCount, err)
			}
			if why, ok := nodeplan.FailureOf(state.FailedOutput); !ok ||
				why != (nodeplan.Failure{Instruction: "a", ExitCode: 3}) {
				t.Errorf("reason of the failure = %+v, %v", why, ok)
			}
			if diff := cmp.Diff(tc.kept, outputs(state)); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
		})
	}
}

// outputs lists the outputs that a Secret contains.
func outputs(state nodeplan.State) []string {
	var out []string
	for name := range state.Output {
		out = append(out, "applied "+name)
	}
	for name := range state.FailedOutput {
		out = append(out, "failed "+name)
	}
	for name, entry := range state.PeriodicOutput {
		if len(entry.Stdout) > 0 {
			out = append(out, "periodic "+name)
		}
	}
	slices.Sort(out)
	return out
}

// A report of a success contains earlier output only once.
func TestRemote_SuccessReportShrinksUntilAccepted(t *testing.T) {
	former, err := nodeplan.EncodeOutput(map[string][]byte{"former": []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	refused := apierrors.NewRequestEntityTooLargeError("limit")
	for name, tc := range map[string]struct {
		refusals []error
		kept     []string
	}{
		"once":        {refusals: []error{refused}, kept: []string{"applied former"}},
		"thrice":      {refusals: []error{refused, refused, refused}},
		"temporarily": {refusals: []error{refused, refused, refused, refused, refused}}, // retried as after an outage
	} {
		t.Run(name, func(t *testing.T) {
			r, client := newTestRemote(t, secretData(echoPlan, nodeplan.KeyAppliedOutput, string(former)))
			failUpdates(client, func() {}, tc.refusals...)
			r.pass(t.Context())
			state, err := nodeplan.Parse("ns/p", stored(t, client))
			if err != nil || !state.InSync || state.SuccessCount != 1 {
				t.Fatalf("in sync %v after %d runs, %v", state.InSync, state.SuccessCount, err)
			}
			if diff := cmp.Diff(tc.kept, outputs(state)); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResult_LongFailureReasonIsShortened(t *testing.T) {
	r := result{output: map[string][]byte{nodeplan.OutputAgentError: noise(maxFailureTail + 1)}}
	if got := len(r.reportedOutput()[nodeplan.OutputAgentError]); got != maxFailureTail+1 {
		t.Errorf("only %d bytes are reported, although more fit", got)
	}
	r.slim = slimOutput
	if got := len(r.reportedOutput()[nodeplan.OutputAgentError]); got != maxFailureTail {
		t.Errorf("%d bytes are reported, want %d", got, maxFailureTail)
	}
}

// The agent shrinks a report before it sends it, so that the server never refuses it, and the results remain usable.
func TestRemote_ReportStaysWithinTheBudget(t *testing.T) {
	long := "head -c 600000 /dev/zero | tr '\\0' x; echo the end"
	data, err := nodeplan.Encode(plan.NodePlan{
		Instructions: []plan.OneTimeInstruction{shell("install", long), shell("again", long),
			shell("secrets-encrypt-status", "echo Attempt: 1")},
		PeriodicInstructions: []plan.PeriodicInstruction{
			{CommonInstruction: shell("capture-kubeconfig", "echo kubeconfig").CommonInstruction},
			{CommonInstruction: shell("list", long).CommonInstruction}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, client := newTestRemote(t, secretData(string(data)))
	refusals := refuseLargeReports(t, client)
	r.pass(t.Context())
	state, err := nodeplan.Parse("ns/p", stored(t, client))
	if err != nil || !state.InSync || *refusals != 0 {
		t.Fatalf("in sync %v, %d reports were refused, %v", state.InSync, *refusals, err)
	}
	if got := string(state.Output["secrets-encrypt-status"]); got != "Attempt: 1\n" {
		t.Errorf("the status is %q", got)
	}
	if got := string(state.PeriodicOutput["capture-kubeconfig"].Stdout); got != "kubeconfig\n" {
		t.Errorf("the kubeconfig is %q", got)
	}
	for name, output := range map[string][]byte{"install": state.Output["install"], "again": state.Output["again"],
		"list": state.PeriodicOutput["list"].Stdout} {
		if !strings.HasPrefix(string(output), omitted) || !strings.HasSuffix(string(output), "the end\n") ||
			len(output) != maxLongOutput {
			t.Errorf("%d bytes remain of %s, from %.40q", len(output), name, output)
		}
	}
}

// A former agent stored more than the server accepts today. The next pass repairs that, without a run of the plan.
func TestRemote_FormerReportIsBroughtIntoTheBudget(t *testing.T) {
	large, err := nodeplan.EncodeOutput(map[string][]byte{"a": make([]byte, 700<<10),
		nodeplan.OutputFailure: nodeplan.Failure{Instruction: "a"}.Encode()})
	if err != nil {
		t.Fatal(err)
	}
	checksum := nodeplan.Checksum([]byte(echoPlan))
	r, client := newTestRemote(t, secretData(echoPlan, nodeplan.KeyAppliedChecksum, checksum,
		nodeplan.KeyAppliedOutput, string(large), nodeplan.KeyFailedOutput, string(large)))
	r.applied = checksum
	refusals := refuseLargeReports(t, client)
	r.pass(t.Context())
	state, err := nodeplan.Parse("ns/p", stored(t, client))
	if err != nil || !state.InSync || state.SuccessCount != 0 || *refusals != 0 {
		t.Fatalf("in sync %v after %d runs, %d reports were refused, %v", state.InSync, state.SuccessCount, *refusals,
			err)
	}
	if why, ok := nodeplan.FailureOf(state.FailedOutput); !ok || why.Instruction != "a" {
		t.Errorf("reason of the failure = %+v, %v", why, ok)
	}
}

// The log says what the reports of a plan omit when that changes, and not at every pass.
func TestRemote_LogsOmissionsOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	var periodic []plan.PeriodicInstruction
	for _, name := range []string{"list", "again"} {
		periodic = append(periodic, plan.PeriodicInstruction{
			CommonInstruction: shell(name, "cat "+file).CommonInstruction})
	}
	var plans []string
	for _, name := range []string{"a", "b"} {
		data, err := nodeplan.Encode(plan.NodePlan{Instructions: []plan.OneTimeInstruction{shell(name, "echo")},
			PeriodicInstructions: periodic})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, string(data))
	}
	r, client := newTestRemote(t, secretData(plans[0]))
	log, logged := test.NewNullLogger()
	now := time.Now()
	r.log, r.now = log, func() time.Time { return now }
	r.applier.now = r.now
	const large, small = 500 << 10, 1 << 10
	for _, step := range []struct {
		name   string
		size   int
		plan   string
		later  time.Duration
		logged int
	}{
		{name: "a report fits", size: small},
		{name: "a report is too large", size: large, later: time.Hour, logged: 1},
		{name: "a pass runs nothing", size: large, later: time.Minute},
		{name: "the next report is as large", size: large, later: time.Hour},
		{name: "a report fits again", size: small, later: time.Hour},
		{name: "a report is too large again", size: large, later: time.Hour, logged: 1},
		{name: "the report of another plan is too large", size: large, plan: plans[1], logged: 1},
	} {
		if err := os.WriteFile(file, bytes.Repeat([]byte("x"), step.size), 0o600); err != nil {
			t.Fatal(err)
		}
		if step.plan != "" {
			r.current.Data[nodeplan.KeyPlan] = []byte(step.plan)
		}
		now = now.Add(step.later)
		logged.Reset()
		r.pass(t.Context())
		count := 0
		for _, entry := range logged.AllEntries() {
			if strings.Contains(entry.Message, "too large") {
				count++
			}
		}
		if count != step.logged {
			t.Errorf("%s: %d lines are logged, want %d", step.name, count, step.logged)
		}
	}
	if state, err := nodeplan.Parse("ns/p", stored(t, client)); err != nil || !state.InSync {
		t.Errorf("in sync %v, %v", state.InSync, err)
	}
}

// refuseLargeReports makes the API refuse reports as the server does, and counts them.
func refuseLargeReports(t *testing.T, client *fake.Clientset) *int {
	t.Helper()
	refusals := new(int)
	client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		err := nodeplan.CheckReport(action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret).Data)
		if err == nil {
			return false, nil, nil
		}
		*refusals++
		return true, nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	})
	return refusals
}
