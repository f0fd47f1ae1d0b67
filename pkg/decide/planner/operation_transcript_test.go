package planner

import (
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// tale is a transcript of an operation in a working cluster.
type tale struct {
	*transcript
	*world
	*downstream
	t *testing.T
}

func newTale(t *testing.T, tr *transcript, version string, roles map[string]string) *tale {
	t.Helper()
	w := newWorld(version)
	for _, name := range []string{"c1", "c2", "e1", "e2", "s1", "s2", "s3", "w1", "w2"} {
		if r, ok := roles[name]; ok {
			w.add(name, r)
		}
	}
	for range 10 {
		if d := w.run(t); d.Wait == nil {
			break
		}
		for _, name := range w.names() {
			h := w.machines[name]
			h.applyPlan()
			h.probes(true)
			h.joinCluster(version)
			if h.m.Marks.InitNode && !strings.Contains(roles[name], "control-plane") {
				h.captureAddress()
			}
			w.connected = true
		}
	}
	tr.lastWait = "ready"
	return &tale{transcript: tr, world: w, downstream: newDownstream(w), t: t}
}

// ask changes the spec.
func (s *tale) ask(text string, change func(spec *rkev1.RKEControlPlaneSpec)) {
	s.t.Helper()
	s.event("%s", text)
	s.cp.Generation++
	change(&s.cp.Spec)
	s.transcript.settle(s.t, s.world)
}

// then writes down what happens outside.
func (s *tale) then(text string, happen func()) {
	s.t.Helper()
	s.event("%s", text)
	happen()
	s.transcript.settle(s.t, s.world)
}

// agents lets the agents of machines apply their plans.
func (s *tale) agents(names ...string) {
	s.t.Helper()
	s.then(strings.Join(names, ", ")+": the plan is applied, the probes pass", func() { s.all(names...) })
}

func (s *tale) fails(name, at string, times int) {
	s.t.Helper()
	s.then(name+": the plan fails for good", func() {
		for range times {
			s.downstream.apply(name, fate{failAt: at, dieBefore: -1}, false)
		}
	})
}

func (s *tale) wait(d time.Duration) {
	s.t.Helper()
	s.then(d.String()+" pass", func() { s.now = s.now.Add(d) })
}

var three = map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane", "w1": "worker"}

// The order of an operation's steps, the record of its failure, and the restore of a cluster that is down are as
// recorded. (docs/invariants.md#weaknesses, W2, W14.)
func TestOperationTranscripts(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, tr *transcript){
		"snapshot-create":                storySnapshotCreate,
		"snapshot-create-fails":          storySnapshotCreateFails,
		"snapshot-create-silent-node":    storySnapshotSilentNode,
		"snapshot-beside-an-upgrade":     storySnapshotBesideUpgrade,
		"restore-local":                  storyRestoreLocal,
		"restore-s3-after-loss-of-etcd":  storyRestoreReplaced,
		"restore-separate-roles":         storyRestoreSeparateRoles,
		"restore-fails":                  storyRestoreFails,
		"restore-unknown-snapshot":       storyRestoreUnknown,
		"restore-fails-while-stopped":    storyRestoreFailsTwice,
		"restore-silent-server":          storyRestoreSilentServer,
		"certificates":                   storyCertificates,
		"certificates-fail":              storyCertificatesFail,
		"certificates-in-paused-cluster": storyCertificatesPaused,
		"certificates-taken-back":        storyCertificatesTakenBack,
		"keys":                           storyKeys,
		"keys-wrong-stage":               storyKeysWrongStage,
		"keys-leader-is-gone":            storyKeysLeaderGone,
		"two-requests":                   storyTwoRequests,
	} {
		t.Run(name, func(t *testing.T) {
			tr := &transcript{}
			story(t, tr)
			golden(t, "operations/"+name+".txt", tr.String())
		})
	}
}

func askSnapshot(generation int) func(*rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: generation}
	}
}

func askRestore(name string, generation int) func(*rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: name, Generation: generation}
	}
}

func askCertificates(generation int64, services ...string) func(*rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.RotateCertificates = &rkev1.RotateCertificates{Generation: generation, Services: services}
	}
}

func askKeys(generation int64) func(*rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: generation}
	}
}

func storySnapshotCreate(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, three)
	s.ask("the user asks for a snapshot", askSnapshot(1))
	s.agents("s2")
	s.agents("s1", "s3")
	s.agents("s1", "s2", "s3")
	s.agents("s1", "s2", "s3")
	s.agents("s1", "s2", "s3")
	s.ask("the user asks for nothing any more", func(spec *rkev1.RKEControlPlaneSpec) { spec.ETCDSnapshotCreate = nil })
}

func storySnapshotCreateFails(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, three)
	s.ask("the user asks for a snapshot", askSnapshot(1))
	s.then("s2: one attempt fails", func() { s.downstream.apply("s2", fate{failAt: "etcd-snapshot", dieBefore: -1}, false) })
	s.agents("s1", "s3")
	s.fails("s2", "etcd-snapshot", 2)
	s.agents("s1", "s2", "s3")
	s.ask("the user asks again", askSnapshot(2))
	s.agents("s1", "s2", "s3")
}

func storySnapshotSilentNode(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, three)
	s.ask("the user asks for a snapshot", askSnapshot(1))
	s.agents("s1", "s3")
	s.wait(stepDeadline)
}

func storySnapshotBesideUpgrade(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"s1": "etcd,control-plane", "w1": "worker"})
	s.ask("the user asks for a snapshot and forces a restart at once", func(spec *rkev1.RKEControlPlaneSpec) {
		askSnapshot(1)(spec)
		spec.ProvisionGeneration = 2
	})
	s.agents("s1")
}

func storyRestoreLocal(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, three)
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", Cluster: "demo", MachineUID: "uid-s2", File: "etcd-snapshot-1"}}
	s.ask("the user asks for a restore of a snapshot on s2", askRestore("snap", 1))
	s.agents("s1", "s2")
	s.agents("s3")
	s.agents("s2")
	s.agents("s2")
	s.agents("s2")
	s.agents("s1")
	s.agents("s3")
	s.agents("w1")
	s.agents("s2")
	s.agents("s2")
	s.then("w1: the node is found again", func() { s.machines["w1"].joinCluster(rke2Version) })
}

func storyRestoreReplaced(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"c1": "control-plane", "e1": "etcd", "w1": "worker"})
	s.cluster.Initialized = true
	s.objects = []Object{{Kind: "Secret", Namespace: "fleet-default", Name: "cc", Data: map[string][]byte{"s3-accessKey": []byte("AK"), "s3-secretKey": []byte("SK")}}}
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", File: "f.zip", S3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: "cc"}}}
	s.then("e1: is deleted", func() { s.machines["e1"].m.Deleting = true })
	s.then("e1: is gone; e2: is registered, its host exists", func() {
		delete(s.machines, "e1")
		s.add("e2", "etcd").serial = 30
	})
	s.ask("the user asks for a restore of a snapshot in S3", askRestore("snap", 1))
	s.agents("c1")
	s.agents("e2")
	s.agents("e2")
	s.then("e2: captures its address", func() { s.machines["e2"].captureAddress() })
	s.agents("c1")
	s.agents("c1", "w1")
	s.agents("c1", "w1")
	s.agents("c1", "w1")
	s.agents("c1", "w1")
}

func storyRestoreSeparateRoles(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, map[string]string{"c1": "control-plane", "e1": "etcd", "e2": "etcd", "w1": "worker"})
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", MachineUID: "uid-e1", File: "f"}}
	s.ask("the user asks for a restore", askRestore("snap", 1))
	s.then("e2: is deleted", func() { s.machines["e2"].m.Deleting = true })
	s.agents("c1", "e1", "w1")
	s.then("e2: is gone", func() { delete(s.machines, "e2") })
	for range 4 {
		s.agents("e1")
	}
	for range 5 {
		s.agents("c1", "w1", "e1")
	}
}

func storyRestoreFails(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"s1": "etcd,control-plane", "w1": "worker"})
	s.ask("the user asks for a restore from a file", askRestore("file", 1))
	s.agents("s1")
	s.fails("s1", "etcd-restore/restore-", 3)
	s.ask("the user takes the request back", func(spec *rkev1.RKEControlPlaneSpec) { spec.ETCDSnapshotRestore = nil })
	s.ask("the user asks for another file", askRestore("other-file", 2))
	for range 5 {
		s.agents("s1", "w1")
	}
}

func storyRestoreUnknown(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, three)
	s.ask("the user asks for a restore of a snapshot that nobody knows", askRestore("nothing", 1))
}

func storyRestoreSilentServer(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane", "w1": "worker"})
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", MachineUID: "uid-s1", File: "f"}}
	s.ask("the user asks for a restore", askRestore("snap", 1))
	s.agents("s1", "s3")
	s.wait(stepDeadline)
	s.then("s2: is deleted and gone", func() { delete(s.machines, "s2") })
	s.ask("the user asks again", askRestore("snap", 2))
}

func storyCertificates(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane", "w1": "worker"})
	s.ask("the user asks for new certificates", askCertificates(1))
	s.agents("s1")
	s.agents("s2")
	s.agents("s3")
	s.agents("w1")
	s.agents("s1")
	s.agents("s2", "s3", "w1")
}

func storyCertificatesFail(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, three)
	s.ask("the user asks for new certificates", askCertificates(1, "etcd"))
	s.fails("s1", "certificate-rotation/rotate", 5)
	s.agents("s1")
	s.agents("s1")
	s.ask("the user asks again", askCertificates(2, "etcd"))
	s.then("s1: the agent is killed before it restarts the server", func() {
		s.downstream.apply("s1", fate{dieBefore: 4}, false)
	})
	s.agents("s1")
	s.wait(stepDeadline)
}

func storyCertificatesPaused(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, map[string]string{"s1": allRoles})
	s.then("the user pauses the cluster", func() { s.cluster.Paused = true })
	s.ask("the user asks for new certificates", askCertificates(1))
	s.agents("s1")
	s.then("the user resumes the cluster", func() { s.cluster.Paused = false })
}

func storyCertificatesTakenBack(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, map[string]string{"s1": allRoles})
	s.ask("the user asks for new certificates", askCertificates(1))
	s.ask("the user takes it back", func(spec *rkev1.RKEControlPlaneSpec) { spec.RotateCertificates = nil })
	s.agents("s1")
	s.agents("s1")
}

func storyKeys(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w1": "worker"})
	s.ask("the user asks for another encryption key", askKeys(1))
	for range 2 {
		s.agents("s1")
		s.agents("s1")
		s.agents("s2")
	}
	s.agents("s1")
	s.then("all Secrets are encrypted again, and s1 reports it", func() {
		s.stage = "reencrypt_finished"
		h := s.machines["s1"]
		state, _ := nodeplan.Parse("", h.data)
		s.periodic(h, state.Plan)
	})
	s.agents("s1")
	s.agents("s2")
	s.agents("s1", "s2")
}

func storyKeysWrongStage(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w1": "worker"})
	s.ask("the user asks for another encryption key", askKeys(1))
	s.agents("s1")
	s.agents("s1")
	s.then("s2: follows to another stage", func() {
		s.stage = "start"
		s.all("s2")
	})
	s.agents("s1", "s2")
}

func storyKeysLeaderGone(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, rke2Version, map[string]string{"e1": "etcd", "c1": "control-plane", "c2": "control-plane", "w1": "worker"})
	s.ask("the user asks for another encryption key", askKeys(1))
	s.agents("c1")
	s.agents("e1")
	s.then("c1: is deleted", func() { s.machines["c1"].m.Deleting = true })
}

func storyTwoRequests(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, map[string]string{"s1": allRoles})
	s.ask("the user asks for new certificates", askCertificates(1))
	s.ask("the user asks for a snapshot meanwhile", askSnapshot(1))
	s.agents("s1")
	s.agents("s1")
	s.agents("s1")
}

func storyRestoreFailsTwice(t *testing.T, tr *transcript) {
	t.Helper()
	s := newTale(t, tr, k3sVersion, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w1": "worker"})
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", MachineUID: "uid-s1", File: "f"}}
	s.ask("the user asks for a restore", askRestore("snap", 1))
	s.ask("the user asks for another snapshot, which nobody knows, while the machines stop", askRestore("typing error", 2))
	s.agents("s1", "s2", "w1")
	s.ask("the user asks for the first one again", askRestore("snap", 3))
	s.agents("s1", "s2", "w1")
}
