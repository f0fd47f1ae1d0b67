package machinejob_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// TestRenderCreate_UsersTextIsLiteral checks that Kubernetes does not expand $(NAME) in a container's arguments. The
// environment contains the credential.
func TestRenderCreate_UsersTextIsLiteral(t *testing.T) {
	t.Parallel()
	objects := machinejob.RenderCreate(machinejob.Input{
		Machine: machinejob.Machine{Name: "m", Namespace: "ns", Spec: map[string]any{"tags": "$(AWS_SECRET_KEY),a$b,$$"}},
		Driver:  machinejob.Driver{Name: "amazonec2"},
	})
	args := objects.Job.Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--amazonec2-tags=$$(AWS_SECRET_KEY),a$$b,$$$$") {
		t.Errorf("arguments %q", args)
	}
}

// TestStateHolds_LooksAtSoMuchOnly checks that a state that unpacks to gigabytes costs no more than an ordinary one. It
// counts as one with a machine.
func TestStateHolds_LooksAtSoMuchOnly(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	zipper, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	writer := tar.NewWriter(zipper)
	const size = 64 << 20
	if err := writer.WriteHeader(&tar.Header{Name: "big", Size: size, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range size >> 20 {
		if _, err := writer.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	for _, closer := range []interface{ Close() error }{writer, zipper} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !machinejob.StateHolds(packed.Bytes()) {
		t.Error("all of it was read")
	}
}

// TestMayUseCredential checks that a machine is not created without the right to the credential. A credential that
// created a machine may also remove it, and an existing machine needs none.
func TestMayUseCredential(t *testing.T) {
	t.Parallel()
	made := rkev1.RKEMachineStatus{CloudCredentialSecretName: "cattle-global-data:cc"}
	shared := map[string]any{"common": map[string]any{"cloudCredentialSecretName": "cattle-global-data:cc"}}
	for name, tc := range map[string]struct {
		machine machinejob.Machine
		want    bool
	}{
		"its own namespace's":                     {machinejob.Machine{Namespace: "a", Spec: map[string]any{"common": map[string]any{"cloudCredentialSecretName": "cc"}}}, true},
		"another's, to be made":                   {machinejob.Machine{Namespace: "a", Spec: shared}, false},
		"another's, being made":                   {machinejob.Machine{Namespace: "a", Spec: shared, Status: made}, false},
		"another's, there":                        {machinejob.Machine{Namespace: "a", Spec: map[string]any{"common": shared["common"], "providerID": "x"}}, true},
		"another's, made with it, to be removed":  {machinejob.Machine{Namespace: "a", Spec: shared, Status: made, Deleting: true}, true},
		"another's, never made with it, deleted":  {machinejob.Machine{Namespace: "a", Spec: shared, Deleting: true}, false},
		"another's, made with another, deleted":   {machinejob.Machine{Namespace: "a", Spec: shared, Deleting: true, Status: rkev1.RKEMachineStatus{CloudCredentialSecretName: "mine"}}, false},
		"another's, there, made without, deleted": {machinejob.Machine{Namespace: "a", Spec: map[string]any{"common": shared["common"], "providerID": "x"}, Deleting: true}, false},
	} {
		if got := tc.machine.MayUseCredential(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDecide_DeniedCredential checks that a denied credential stops a machine before its creation, with a reason of its
// own.
func TestDecide_DeniedCredential(t *testing.T) {
	t.Parallel()
	decision := machinejob.Decide(machinejob.Snapshot{
		Machine: machinejob.Machine{Name: "m", Namespace: "a", Kind: "PodMachine", Guarded: true, CAPIMachineName: "m"},
		CAPI:    &machinejob.CAPIMachine{Name: "m", BootstrapSecret: "b"}, BootstrapReady: true,
		Cluster:         &machinejob.ClusterState{InfrastructureReady: true},
		CredentialError: "may not", CredentialDenied: true, Now: time.Unix(1, 0),
	})
	if len(decision.Actions) > 0 {
		t.Errorf("actions %v", decision.Actions)
	}
	for _, condition := range decision.Status.Conditions {
		if condition.Type == rkev1.ConditionReady && condition.Reason == "AccessDenied" {
			return
		}
	}
	t.Errorf("conditions %v", decision.Status.Conditions)
}

// TestDecide_PoolThatFailsWaitsForItsTurn checks that a machine whose pool has failures waits for the pool's turn,
// checks it every minute, and reports the time.
func TestDecide_PoolThatFailsWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		failures int
		turn     time.Time
		after    time.Duration
		message  string
	}{
		"none failed":                 {},
		"its turn has come":           {failures: 3, turn: now},
		"its turn was long ago":       {failures: 3, turn: now.Add(-time.Hour)},
		"one failed beside others":    {failures: 1, turn: now.Add(20 * time.Second), after: 20 * time.Second, message: "until 2026-01-01T12:00:20Z, longer each time: the last machine of"},
		"several failed":              {failures: 4, turn: now.Add(40 * time.Second), after: 40 * time.Second, message: "until 2026-01-01T12:00:40Z, longer each time: the last 4 machines of"},
		"its turn comes in ten hours": {failures: 9, turn: now.Add(10 * time.Hour), after: time.Minute, message: "until 2026-01-01T22:00:00Z"},
	} {
		got := machinejob.Decide(machinejob.Snapshot{
			Machine: machinejob.Machine{Name: "m", Namespace: "a", Kind: "PodMachine", Guarded: true, CAPIMachineName: "m"},
			CAPI:    &machinejob.CAPIMachine{Name: "m", BootstrapSecret: "b"}, BootstrapReady: true,
			Cluster:      &machinejob.ClusterState{InfrastructureReady: true},
			PoolFailures: tc.failures, PoolTurn: tc.turn, Now: now,
		})
		ready := conditions.Get(got.Status.Conditions, rkev1.ConditionReady)
		waits := ready != nil && ready.Reason == machinejob.ReasonBackOff
		if got.After != tc.after || waits != (tc.after > 0) || waits && !strings.Contains(ready.Message, tc.message) {
			t.Errorf("%s: again in %v, %+v", name, got.After, ready)
		}
	}
}
