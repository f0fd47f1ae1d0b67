package machinejob_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/machinejob"
)

// Kubernetes replaces $(NAME) in a container's arguments by the environment, which holds the credential.
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

// A state that unpacks to gigabytes costs no more than one of ordinary size, and counts as one that holds a machine.
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

// Without the right to the credential no machine is made; the one that was made with it is removed with it, and one that is there needs none.
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

// A denied credential stops a machine before anything is made, and says so with a reason of its own.
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

// A pool whose machines always fail is tried ever less often.
func TestDecide_PoolThatFailsIsTriedLater(t *testing.T) {
	t.Parallel()
	failed := time.Unix(1000, 0)
	for failures, want := range map[int]time.Duration{0: 0, 1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 6: 160 * time.Second, 8: 10 * time.Minute, 500: 10 * time.Minute} {
		s := machinejob.Snapshot{
			Machine: machinejob.Machine{Name: "m", Namespace: "a", Kind: "PodMachine", Guarded: true, CAPIMachineName: "m"},
			CAPI:    &machinejob.CAPIMachine{Name: "m", BootstrapSecret: "b"}, BootstrapReady: true,
			Cluster:      &machinejob.ClusterState{InfrastructureReady: true},
			PoolFailures: failures, PoolFailedAt: failed, Now: failed,
		}
		if got := machinejob.Decide(s); got.After != want || (want > 0) != (got.Wait == "the delay after machines that failed") {
			t.Errorf("after %d failures: again in %v, waiting for %q", failures, got.After, got.Wait)
		}
		s.Now = failed.Add(want)
		if got := machinejob.Decide(s); got.After != 0 {
			t.Errorf("after %d failures and the delay: again in %v", failures, got.After)
		}
	}
}

// However many pools of a namespace fail, they do not keep the API server busy.
func TestDecide_ManyPoolsThatFailShareTheirAttempts(t *testing.T) {
	t.Parallel()
	failed := time.Unix(1000, 0)
	for _, tc := range []struct {
		failures, pools int
		want            time.Duration
	}{
		{3, 1, 20 * time.Second}, {3, 2, 20 * time.Second}, {3, 3, 30 * time.Second}, {3, 200, 2000 * time.Second},
		{1, 1, 0}, {1, 2, 10 * time.Second}, {1, 200, 1990 * time.Second},
	} {
		got := machinejob.Decide(machinejob.Snapshot{
			Machine: machinejob.Machine{Name: "m", Namespace: "a", Kind: "PodMachine", Guarded: true, CAPIMachineName: "m"},
			CAPI:    &machinejob.CAPIMachine{Name: "m", BootstrapSecret: "b"}, BootstrapReady: true,
			Cluster:      &machinejob.ClusterState{InfrastructureReady: true},
			PoolFailures: tc.failures, PoolFailedAt: failed, FailingPools: tc.pools, Now: failed,
		})
		if got.After != tc.want {
			t.Errorf("%d failures, %d pools: again in %v, want %v", tc.failures, tc.pools, got.After, tc.want)
		}
	}
}
