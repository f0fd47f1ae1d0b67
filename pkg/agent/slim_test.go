package agent

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
