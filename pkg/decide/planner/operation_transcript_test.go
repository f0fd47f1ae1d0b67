package planner

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

// tale is a transcript of an operation in a working cluster.
type tale struct {
	*transcript
	*world
	*downstream
	t *testing.T
}

func newTale(t *testing.T, version string, roles map[string]string) *tale {
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
	return &tale{transcript: &transcript{lastWait: "ready"}, world: w, downstream: newDownstream(w), t: t}
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

type roles = map[string]string

// Clusters of one, two and three machines with etcd and API server, and of machines with separate roles.
var (
	alone = roles{"s1": allRoles}
	one   = roles{"s1": "etcd,control-plane", "w1": "worker"}
	two   = roles{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w1": "worker"}
	three = roles{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane", "w1": "worker"}
	apart = roles{"c1": "control-plane", "e1": "etcd", "w1": "worker"}
)

// The order of an operation's steps, the record of its failure, and the restore of a cluster that is down are as
// recorded. (docs/invariants.md#weaknesses, W2, W14.)
func TestOperationTranscripts(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		roles   roles
		play    func(*tale)
	}{
		"snapshot-create":               {rke2Version, three, storySnapshotCreate},
		"snapshot-create-fails":         {k3sVersion, three, storySnapshotCreateFails},
		"snapshot-create-silent-node":   {rke2Version, three, storySnapshotSilentNode},
		"snapshot-during-an-upgrade":    {rke2Version, one, storySnapshotDuringUpgrade},
		"restore-local":                 {rke2Version, three, storyRestoreLocal},
		"restore-s3-after-loss-of-etcd": {rke2Version, apart, storyRestoreReplaced},
		"restore-separate-roles": {
			k3sVersion, roles{"c1": "control-plane", "e1": "etcd", "e2": "etcd", "w1": "worker"}, storyRestoreApart,
		},
		"restore-fails":                  {rke2Version, one, storyRestoreFails},
		"restore-unknown-snapshot":       {rke2Version, three, storyRestoreUnknown},
		"restore-fails-while-stopped":    {k3sVersion, two, storyRestoreFailsTwice},
		"restore-silent-server":          {rke2Version, three, storyRestoreSilentServer},
		"certificates":                   {rke2Version, three, storyCertificates},
		"certificates-fail":              {k3sVersion, three, storyCertificatesFail},
		"certificates-in-paused-cluster": {k3sVersion, alone, storyCertificatesPaused},
		"certificates-taken-back":        {k3sVersion, alone, storyCertificatesTakenBack},
		"keys":                           {rke2Version, two, storyKeys},
		"keys-wrong-stage":               {rke2Version, two, storyKeysWrongStage},
		"keys-leader-is-gone": {
			rke2Version, roles{"c1": "control-plane", "c2": "control-plane", "e1": "etcd", "w1": "worker"},
			storyLeaderGone,
		},
		"two-requests": {k3sVersion, alone, storyTwoRequests},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTale(t, tc.version, tc.roles)
			tc.play(s)
			golden.Check(t, filepath.Join("testdata", "operations/"+name+".txt"), s.transcript.String())
		})
	}
}

type edit = func(*rkev1.RKEControlPlaneSpec)

func askSnapshot(g int) edit {
	return func(s *rkev1.RKEControlPlaneSpec) { s.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: g} }
}

func askRestore(name string, g int) edit {
	request := &rkev1.ETCDSnapshotRestore{Name: name, Generation: g}
	return func(s *rkev1.RKEControlPlaneSpec) { s.ETCDSnapshotRestore = request }
}

func askCertificates(g int64, services ...string) edit {
	request := &rkev1.RotateCertificates{Generation: g, Services: services}
	return func(s *rkev1.RKEControlPlaneSpec) { s.RotateCertificates = request }
}

func askKeys(g int64) edit {
	return func(s *rkev1.RKEControlPlaneSpec) {
		s.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: g}
	}
}

func storySnapshotCreate(s *tale) {
	s.ask("the user asks for a snapshot", askSnapshot(1))
	s.agents("s2")
	s.agents("s1", "s3")
	s.agents("s1", "s2", "s3")
	s.agents("s1", "s2", "s3")
	s.agents("s1", "s2", "s3")
	s.ask("the user asks for nothing any more", func(spec *rkev1.RKEControlPlaneSpec) { spec.ETCDSnapshotCreate = nil })
}

func storySnapshotCreateFails(s *tale) {
	s.ask("the user asks for a snapshot", askSnapshot(1))
	s.then("s2: one attempt fails", func() {
		s.downstream.apply("s2", fate{failAt: "etcd-snapshot", dieBefore: -1}, false)
	})
	s.agents("s1", "s3")
	s.fails("s2", "etcd-snapshot", 2)
	s.agents("s1", "s2", "s3")
	s.ask("the user asks again", askSnapshot(2))
	s.agents("s1", "s2", "s3")
}

func storySnapshotSilentNode(s *tale) {
	s.ask("the user asks for a snapshot", askSnapshot(1))
	s.agents("s1", "s3")
	s.wait(stepDeadline)
}

func storySnapshotDuringUpgrade(s *tale) {
	s.ask("the user asks for a snapshot and forces a restart at once", func(spec *rkev1.RKEControlPlaneSpec) {
		askSnapshot(1)(spec)
		spec.ProvisionGeneration = 2
	})
	s.agents("s1")
}

func storyRestoreLocal(s *tale) {
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

func storyRestoreReplaced(s *tale) {
	s.cluster.Initialized = true
	s.objects = []Object{{Kind: "Secret", Namespace: "fleet-default", Name: "cc",
		Data: map[string][]byte{"s3-accessKey": []byte("AK"), "s3-secretKey": []byte("SK")}}}
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", File: "f.zip",
		S3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: "cc"}}}
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

func storyRestoreApart(s *tale) {
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

func storyRestoreFails(s *tale) {
	s.ask("the user asks for a restore from a file", askRestore("file", 1))
	s.agents("s1")
	s.fails("s1", "etcd-restore/restore-", 3)
	s.ask("the user takes the request back", func(spec *rkev1.RKEControlPlaneSpec) { spec.ETCDSnapshotRestore = nil })
	s.ask("the user asks for another file", askRestore("other-file", 2))
	for range 5 {
		s.agents("s1", "w1")
	}
}

func storyRestoreUnknown(s *tale) {
	s.ask("the user asks for a restore of an unknown snapshot", askRestore("nothing", 1))
}

func storyRestoreSilentServer(s *tale) {
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", MachineUID: "uid-s1", File: "f"}}
	s.ask("the user asks for a restore", askRestore("snap", 1))
	s.agents("s1", "s3")
	s.wait(stepDeadline)
	s.then("s2: is deleted and gone", func() { delete(s.machines, "s2") })
	s.ask("the user asks again", askRestore("snap", 2))
}

func storyCertificates(s *tale) {
	s.ask("the user asks for new certificates", askCertificates(1))
	s.agents("s1")
	s.agents("s2")
	s.agents("s3")
	s.agents("w1")
	s.agents("s1")
	s.agents("s2", "s3", "w1")
}

func storyCertificatesFail(s *tale) {
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

func storyCertificatesPaused(s *tale) {
	s.then("the user pauses the cluster", func() { s.cluster.Paused = true })
	s.ask("the user asks for new certificates", askCertificates(1))
	s.agents("s1")
	s.then("the user resumes the cluster", func() { s.cluster.Paused = false })
}

func storyCertificatesTakenBack(s *tale) {
	s.ask("the user asks for new certificates", askCertificates(1))
	s.ask("the user takes it back", func(spec *rkev1.RKEControlPlaneSpec) { spec.RotateCertificates = nil })
	s.agents("s1")
	s.agents("s1")
}

func storyKeys(s *tale) {
	s.ask("the user asks for another encryption key", askKeys(1))
	for range 2 {
		s.agents("s1")
		s.agents("s1")
		s.agents("s2")
	}
	s.agents("s1")
	s.then("all Secrets are encrypted again, and s1 reports it", func() {
		s.stage = "reencrypt_finished"
		s.periodic(s.machines["s1"], s.machines["s1"].state().Plan)
	})
	s.agents("s1")
	s.agents("s2")
	s.agents("s1", "s2")
}

func storyKeysWrongStage(s *tale) {
	s.ask("the user asks for another encryption key", askKeys(1))
	s.agents("s1")
	s.agents("s1")
	s.then("s2: follows to another stage", func() {
		s.stage = "start"
		s.all("s2")
	})
	s.agents("s1", "s2")
}

func storyLeaderGone(s *tale) {
	s.ask("the user asks for another encryption key", askKeys(1))
	s.agents("c1")
	s.agents("e1")
	s.then("c1: is deleted", func() { s.machines["c1"].m.Deleting = true })
}

func storyTwoRequests(s *tale) {
	s.ask("the user asks for new certificates", askCertificates(1))
	s.ask("the user asks for a snapshot meanwhile", askSnapshot(1))
	s.agents("s1")
	s.agents("s1")
	s.agents("s1")
}

func storyRestoreFailsTwice(s *tale) {
	s.world.snapshots = []ETCDSnapshot{{Name: "snap", MachineUID: "uid-s1", File: "f"}}
	s.ask("the user asks for a restore", askRestore("snap", 1))
	s.ask("the user asks for an unknown snapshot while the machines stop", askRestore("typing error", 2))
	s.agents("s1", "s2", "w1")
	s.ask("the user asks for the first one again", askRestore("snap", 3))
	s.agents("s1", "s2", "w1")
}
