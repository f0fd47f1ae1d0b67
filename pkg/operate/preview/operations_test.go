package preview

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// An edit that requests an operation affects machines like any other edit. A user must be able to trust the result
// "None".
func TestCompute_Operations(t *testing.T) {
	const rke = "spec.rkeConfig."
	for name, tc := range map[string]struct {
		given  func(*world)
		edit   func(*provv1.RKEConfig)
		result planner.Class
		want   []string
		order  []string
		notes  []string
	}{
		"a snapshot restarts no machine": {
			edit:   func(c *provv1.RKEConfig) { c.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1} },
			result: planner.ClassInPlace,
			want: []string{
				"server-1 InPlace " + rke + "etcdSnapshotCreate", "server-2 InPlace " + rke + "etcdSnapshotCreate",
				"server-3 InPlace " + rke + "etcdSnapshotCreate",
			},
			order: []string{"etcd snapshot, all at once: server-1 server-2 server-3"},
		},
		"a certificate rotation restarts all machines": {
			edit:   func(c *provv1.RKEConfig) { c.RotateCertificates = &rkev1.RotateCertificates{Generation: 1} },
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart " + rke + "rotateCertificates", "server-2 Restart " + rke + "rotateCertificates",
				"server-3 Restart " + rke + "rotateCertificates", "worker-1 Restart " + rke + "rotateCertificates",
				"worker-2 Restart " + rke + "rotateCertificates",
			},
			order: []string{"certificate rotation, one at a time: server-1 server-2 server-3 worker-1 worker-2"},
		},
		"a rotation of a server's certificates skips workers": {
			edit: func(c *provv1.RKEConfig) {
				c.RotateCertificates = &rkev1.RotateCertificates{Generation: 1, Services: []string{"etcd"}}
			},
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart " + rke + "rotateCertificates", "server-2 Restart " + rke + "rotateCertificates",
				"server-3 Restart " + rke + "rotateCertificates",
			},
		},
		"certificates of an unknown service": {
			edit: func(c *provv1.RKEConfig) {
				c.RotateCertificates = &rkev1.RotateCertificates{Generation: 1,
					Services: []string{"etcd", "k3s-server"}}
			},
			result: planner.ClassNone,
			notes: []string{rke +
				"rotateCertificates: the certificate rotation would fail before it changes any machine: rke2 has no " +
				"service k3s-server with certificates"},
		},
		"a key rotation restarts servers three times": {
			edit:   func(c *provv1.RKEConfig) { c.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1} },
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart " + rke + "rotateEncryptionKeys", "server-2 Restart " + rke + "rotateEncryptionKeys",
				"server-3 Restart " + rke + "rotateEncryptionKeys",
			},
			order: []string{"encryption key rotation, one at a time, 3 times: server-1 server-2 server-3"},
		},
		"a version without key rotation": {
			given:  func(w *world) { w.features = map[string]string{"other": "1"} },
			edit:   func(c *provv1.RKEConfig) { c.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1} },
			result: planner.ClassNone,
			notes: []string{rke +
				"rotateEncryptionKeys: the encryption key rotation would fail before it changes any machine: " +
				"version v1.36.2+rke2r1 cannot rotate encryption keys"},
		},
		"a restore stops all machines": {
			given: func(w *world) {
				w.snapshot.Snapshots = []planner.ETCDSnapshot{{Name: "x", File: "f", MachineUID: "server-2"}}
			},
			edit: func(c *provv1.RKEConfig) {
				c.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "x", Generation: 1}
			},
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart " + rke + "etcdSnapshotRestore", "server-2 Restart " + rke + "etcdSnapshotRestore",
				"server-3 Restart " + rke + "etcdSnapshotRestore", "worker-1 Restart " + rke + "etcdSnapshotRestore",
				"worker-2 Restart " + rke + "etcdSnapshotRestore",
			},
			order: []string{
				"etcd restore: stop, all at once: server-1 server-2 server-3 worker-1 worker-2",
				"etcd restore: restore and start, one at a time: server-2",
				"etcd restore: start, tier by tier: server-1 server-3 worker-1 worker-2",
			},
		},
		"a restore that cannot work stops no machine": {
			edit: func(c *provv1.RKEConfig) {
				c.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "x", Generation: 1}
			},
			result: planner.ClassNone,
			notes: []string{rke +
				"etcdSnapshotRestore: the etcd restore would fail before it changes any machine: snapshot x is not " +
				"known; to restore from a file of that name " +
				"there must be exactly one machine with etcd"},
		},
		"a restore that has stopped machines, and whose snapshot is missing": {
			given: func(w *world) {
				asked := &rkev1.ETCDSnapshotRestore{Name: "x", Generation: 1}
				w.cluster.Spec.RKEConfig.ETCDSnapshotRestore = asked
				status := &w.snapshot.ControlPlane.Status
				status.ETCDSnapshotRestore, status.ETCDSnapshotRestorePhase = asked, rkev1.ETCDSnapshotPhaseShutdown
				status.Operations = []rkev1.OperationRecord{{Name: "etcd-restore", Attempt: 1,
					State: rkev1.OperationStateRunning, Stopped: true}}
			},
			edit: func(c *provv1.RKEConfig) { c.UpgradeStrategy.WorkerConcurrency = "2" }, result: planner.ClassNone,
			want: []string{
				"server-1 Restart pending", "server-2 Restart pending", "server-3 Restart pending",
				"worker-1 Restart pending", "worker-2 Restart pending",
			},
			notes: []string{rke +
				"etcdSnapshotRestore: the etcd restore is running, but cannot continue: snapshot x is not known; to " +
				"restore from a file of that name " +
				"there must be exactly one machine with etcd", "pending changes happen without the edit, too; if " +
				"the cluster has settled, this command lacks settings of the server " +
				"(--system-default-registry and others)"},
		},
		"a rotation with an edit comes first, and waits for unreachable members": {
			given: func(w *world) { w.machine("server-3").NodeLostSince = start },
			edit: func(c *provv1.RKEConfig) {
				c.RotateCertificates = &rkev1.RotateCertificates{Generation: 1, Services: []string{"etcd"}}
				c.AdditionalManifest = "kind: ConfigMap"
				c.MachinePools[1].Labels = map[string]string{"a": "b"}
			},
			result: planner.ClassRestart,
			want: []string{
				"server-1 Restart " + rke + "rotateCertificates " + rke + "additionalManifest",
				"server-2 Restart " + rke + "rotateCertificates " + rke + "additionalManifest",
				"server-3 Restart " + rke + "rotateCertificates " + rke + "additionalManifest",
				"worker-1 Restart " + rke + "machinePools[1].labels.a", "worker-2 Restart " + rke +
					"machinePools[1].labels.a",
			},
			order: []string{
				"certificate rotation, one at a time: server-1 server-2 server-3", "bootstrap, one at a time: server-1",
				"etcd, one at a time: server-2 server-3",
				"worker, one at a time: worker-1 worker-2",
			},
			notes: []string{rke +
				"rotateCertificates: the certificate rotation does not start now: it waits for the etcd members of " +
				"machines whose nodes are unreachable: server-3"},
		},
		"a finished operation does not run again": {
			given: func(w *world) { w.snapshot.ControlPlane.Status.CertificateRotationGeneration = 1 },
			edit: func(c *provv1.RKEConfig) {
				c.RotateCertificates = &rkev1.RotateCertificates{
					Generation: 1}
			}, result: planner.ClassNone,
		},
		"a requested operation is pending": {
			given: func(w *world) {
				w.cluster.Spec.RKEConfig.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
			},
			edit: func(c *provv1.RKEConfig) { c.UpgradeStrategy.WorkerConcurrency = "2" }, result: planner.ClassNone,
			want: []string{"server-1 InPlace pending", "server-2 InPlace pending", "server-3 InPlace pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.given != nil {
				tc.given(w)
			}
			r := w.preview(t, func(c *provv1.Cluster) { tc.edit(c.Spec.RKEConfig) }, nil)
			if diff := cmp.Diff(tc.want, lines(r)); diff != "" || r.Result != tc.result {
				t.Errorf("result %s, want %s; machines (-want +got):\n%s", r.Result, tc.result, diff)
			}
			if diff := cmp.Diff(tc.order, order(r)); diff != "" && tc.order != nil {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.notes, r.Notes); diff != "" && (tc.notes != nil || tc.result != planner.ClassNone) {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if r.Order != nil && r.Machines[0].Class != planner.ClassNone && r.Machines[0].Stage != 1 {
				t.Errorf("%s is in stage %d", r.Machines[0].Name, r.Machines[0].Stage)
			}
		})
	}
}

// The operations of a new cluster begin later, because no machine exists yet.
func TestCompute_OperationsOfANewCluster(t *testing.T) {
	w := newWorld(t)
	w.cluster.Spec.RKEConfig.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
	r, err := Compute(Input{After: w.input(w.cluster, w.configs), Release: func(version string) distro.Release {
		return distro.Release{Version: version, Known: true}
	}})
	if err != nil || r.Result != planner.ClassAdd {
		t.Fatalf("report %+v, %v", r, err)
	}
	want := []string{
		"spec.rkeConfig.etcdSnapshotCreate: the etcd snapshot starts later, on machines that do not exist yet",
	}
	if diff := cmp.Diff(want, r.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// Programs read from the report whether an operation would fail.
func TestReport_OperationProblem(t *testing.T) {
	const field = "spec.rkeConfig.etcdSnapshotRestore"
	for name, tc := range map[string]struct {
		snapshots []planner.ETCDSnapshot
		want      []Operation
		problem   string
	}{
		"an operation that works": {[]planner.ETCDSnapshot{{Name: "x", File: "f", MachineUID: "server-2"}},
			[]Operation{{Field: field}}, ""},
		"an operation that fails": {[]planner.ETCDSnapshot{{Name: "x", File: "f", MachineUID: "gone"}},
			[]Operation{{Field: field, Problem: "the machine that holds snapshot x cannot start etcd or is gone"}},
			"the machine that holds snapshot x cannot start etcd or is gone"},
	} {
		w := newWorld(t)
		w.snapshot.Snapshots = tc.snapshots
		r := w.preview(t, func(c *provv1.Cluster) {
			c.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "x", Generation: 1}
		}, nil)
		if diff := cmp.Diff(tc.want, r.Operations); diff != "" || r.OperationProblem(field) != tc.problem ||
			r.OperationProblem("spec.rkeConfig.rotateCertificates") != "" {
			t.Errorf("%s: problem %q, want %q; operations (-want +got):\n%s", name, r.OperationProblem(field),
				tc.problem, diff)
		}
	}
	stuck := Report{Operations: []Operation{{Field: field, Running: true, Stuck: "x"}}}
	if got := stuck.OperationProblem(field); got != "x" {
		t.Errorf("problem %q", got)
	}
}
