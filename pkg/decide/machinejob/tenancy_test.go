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
		Machine: machinejob.Machine{Name: "m", Namespace: "ns",
			Spec: map[string]any{"tags": "$(AWS_SECRET_KEY),a$b,$$"}},
		Driver: machinejob.Driver{Name: "amazonec2"},
	})
	args := objects.Job.Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--amazonec2-tags=$$(AWS_SECRET_KEY),a$$b,$$$$") {
		t.Errorf("arguments %q", args)
	}
}

// TestStateHolds_ReadsALimitedAmount checks that a state that unpacks to gigabytes costs no more than an ordinary one.
// It counts as one with a machine.
func TestStateHolds_ReadsALimitedAmount(t *testing.T) {
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
		t.Error("everything was read")
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
		"of its own namespace": {machinejob.Machine{Namespace: "a",
			Spec: map[string]any{"common": map[string]any{"cloudCredentialSecretName": "cc"}}}, true},
		"of another namespace, before the creation": {machinejob.Machine{Namespace: "a",
			Spec: shared}, false},
		"of another namespace, during the creation": {machinejob.Machine{Namespace: "a",
			Spec: shared, Status: made}, false},
		"of another namespace, existing": {machinejob.Machine{Namespace: "a",
			Spec: map[string]any{"common": shared["common"], "providerID": "x"}}, true},
		"of another namespace, created with it, before the removal": {machinejob.Machine{Namespace: "a",
			Spec: shared, Status: made, Deleting: true}, true},
		"of another namespace, never created, deleted": {machinejob.Machine{Namespace: "a",
			Spec: shared, Deleting: true}, false},
		"of another namespace, created with another credential, deleted": {machinejob.Machine{Namespace: "a",
			Spec: shared, Deleting: true, Status: rkev1.RKEMachineStatus{CloudCredentialSecretName: "mine"}}, false},
		"of another namespace, existing, created without it, deleted": {machinejob.Machine{Namespace: "a",
			Spec: map[string]any{"common": shared["common"], "providerID": "x"}, Deleting: true}, false},
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
		cause    string
		message  string
	}{
		"a cause": {failures: 1, turn: now.Add(20 * time.Second), after: 20 * time.Second,
			cause: "no quota.\npassword: hunter2", message: "of its pool failed: no quota. password: ***. The delay grows"},
		"no failure":            {},
		"its turn has come":     {failures: 3, turn: now},
		"its turn was long ago": {failures: 3, turn: now.Add(-time.Hour)},
		"one failure": {failures: 1, turn: now.Add(20 * time.Second), after: 20 * time.Second,
			message: "until 2026-01-01T12:00:20Z: the creation of the last machine of"},
		"several failures": {failures: 4, turn: now.Add(40 * time.Second), after: 40 * time.Second,
			message: "until 2026-01-01T12:00:40Z: the creation of the last 4 machines of"},
		"its turn comes in ten hours": {failures: 9, turn: now.Add(10 * time.Hour), after: time.Minute,
			message: "until 2026-01-01T22:00:00Z"},
	} {
		got := machinejob.Decide(machinejob.Snapshot{
			Machine: machinejob.Machine{Name: "m", Namespace: "a", Kind: "PodMachine", Guarded: true,
				CAPIMachineName: "m"},
			CAPI: &machinejob.CAPIMachine{Name: "m", BootstrapSecret: "b"}, BootstrapReady: true,
			Cluster:      &machinejob.ClusterState{InfrastructureReady: true},
			PoolFailures: tc.failures, PoolTurn: tc.turn, PoolCause: tc.cause, Now: now,
		})
		ready := conditions.Get(got.Status.Conditions, rkev1.ConditionReady)
		waits := ready != nil && ready.Reason == machinejob.ReasonBackOff
		if got.After != tc.after || waits != (tc.after > 0) || waits && !strings.Contains(ready.Message, tc.message) {
			t.Errorf("%s: again in %v, %+v", name, got.After, ready)
		}
	}
}
