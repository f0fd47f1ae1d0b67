package planner

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// A drain ends when its machine gets no plan. Otherwise the node would stay empty, and hold the place of others, until
// the user acts.
func TestDecide_APauseEndsADrain(t *testing.T) {
	for name, hold := range map[string]func(m *Machine){
		"the pool is paused":      func(m *Machine) { m.PoolPaused = true },
		"the machine is left out": func(m *Machine) { m.Skip = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := draining(t)
			w1, w2 := w.machines["w1"], w.machines["w2"]
			hold(&w1.m)
			w.run(t)
			w1.drainNode()
			w.run(t)
			if w1.drain != (Drain{}) || w1.hasPlan() || w2.drain.Requested == "" {
				t.Errorf("w1 is at %+v, w2 at %+v", w1.drain, w2.drain)
			}
			w1.m.PoolPaused, w1.m.Skip = false, false
			w.bringUp(t)
			if w1.drains == 0 {
				t.Error("w1 was not drained in the end")
			}
		})
	}
}

// A worker that is off cannot get another plan while its pool is paused, and does not hold up others because of that.
func TestDecide_ALostWorkerOfAPausedPool(t *testing.T) {
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker"})
	w.edit(restartAll)
	w.roll(t, "s", "w2")
	w.off(w.machines["w1"])
	w.run(t)
	w.now = w.now.Add(2 * lostAfter)
	w.roll(t, "w2")
	w.machines["w1"].m.PoolPaused = true
	w.edit(restartAll)
	w.roll(t, "s")
	if !w.machines["w2"].hasPlan() {
		t.Errorf("w2 waits for a machine that gets no plan: %s", w.machines["w2"].m.Reconciled.Message)
	}
}

// A worker that is off holds up its tier no longer than others, even when its plan is kept because this program cannot
// render its version.
func TestDecide_ALostWorkerWhosePlanIsKept(t *testing.T) {
	for name, kept := range map[string]bool{"its plan is rendered": false, "its plan is kept": true} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker"})
			w.edit(restartAll)
			w.roll(t, "s")
			w1, w2 := w.machines["w1"], w.machines["w2"]
			if w.off(w1); !w1.hasPlan() {
				t.Fatal("w1 has no plan")
			}
			if kept {
				w1.m.Marks.RenderVersion = "unknown"
			}
			if w.run(t); w2.hasPlan() {
				t.Fatal("w2 does not wait")
			}
			w.now = w.now.Add(lostAfter)
			if d := w.run(t); !w2.hasPlan() {
				t.Errorf("w2 waits for ever: %+v", d.Wait)
			}
		})
	}
}

// Kubelets must not be newer than their API servers. Therefore a server that cannot get the plan of another version
// holds up later tiers, and says why.
func TestDecide_NoNodeIsNewerThanAServerThatIsHeld(t *testing.T) {
	const newer = "v1.37.0+rke2r1"
	for name, tc := range map[string]struct {
		given func(w *world)
		to    string
		want  Reason
		gets  bool
	}{
		"its plan is too large": {func(w *world) {
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = strings.Repeat("x", MaxPlanSize) })
		}, newer, ReasonPlanTooLarge, false},
		"its plan is kept": {func(w *world) { w.machines["s1"].m.Marks.RenderVersion = "unknown" }, newer,
			ReasonVersionUnknown, false},
		"its plan is too large for the same version": {func(w *world) {
			w.edit(func(s *rkev1.RKEControlPlaneSpec) {
				s.AdditionalManifest = strings.Repeat("x", MaxPlanSize)
				restartAll(s)
			})
		}, rke2Version, ReasonPlanTooLarge, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.connected = true
			for _, h := range w.machines {
				h.m.KubeletVersion = rke2Version
			}
			tc.given(w)
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.KubernetesVersion = tc.to })
			d := w.run(t)
			if d.Wait == nil || d.Wait.Reason != tc.want || !strings.Contains(d.Wait.Message, "s1") || !d.Wait.Failed {
				t.Errorf("wait is %+v", d.Wait)
			}
			if got := w.machines["w"].hasPlan(); got != tc.gets {
				t.Errorf("the worker gets a plan: %v", got)
			}
		})
	}
}

// A machine whose plan Secret loses its data while another member restarts still counts as a member.
func TestDecide_AMemberWithoutAPlanWaitsForItsTurn(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s1")
	s3 := w.machines["s3"]
	s3.data, s3.probesSeen, s3.delivered = nil, false, time.Time{}
	if w.run(t); !w.machines["s2"].hasPlan() || s3.hasPlan() {
		t.Fatalf("s2 has a plan: %v, s3: %v", w.machines["s2"].hasPlan(), s3.hasPlan())
	}
	w.bringUp(t)
}

// Additions to a failure message are not taken as a part of the failure.
func TestDecide_AFailureOfALostServerIsToldOnce(t *testing.T) {
	for name, note := range map[string]func(w *world, m *Machine){
		"its node is lost": func(w *world, m *Machine) { m.NodeLostSince = w.now },
		"it is left out":   func(_ *world, m *Machine) { m.Skip = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.run(t)
			s1 := w.machines["s1"]
			s1.failPlan()
			fail := func(output string) {
				packed, err := nodeplan.EncodeOutput(map[string][]byte{
					"install": []byte(output), nodeplan.OutputFailure: nodeplan.Failure{Instruction: "install",
						ExitCode: 7}.Encode(),
				})
				if err != nil {
					t.Fatal(err)
				}
				s1.data[nodeplan.KeyFailedOutput] = packed
			}
			fail("10:01 no route")
			note(w, &s1.m)
			w.run(t)
			first := s1.m.Reconciled.Message
			fail("10:02 no route")
			w.run(t)
			if got := s1.m.Reconciled.Message; got != first || !strings.Contains(got, "10:01 no route") {
				t.Errorf("message is %q, was %q", got, first)
			}
		})
	}
}

// The count of failures comes from the node. No value of it breaks decisions.
func TestDecide_ANodeThatReportsEndlessFailures(t *testing.T) {
	for _, count := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt/2 + 1, math.MinInt} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			w := small(t)
			w.edit(restartAll)
			w.roll(t, "s")
			h := w.machines["w"]
			h.failPlan()
			h.data[nodeplan.KeyFailureCount] = []byte(strconv.Itoa(count))
			w.edit(restartAll)
			w.roll(t, "s")
			if limit := h.state().MaxFailures; limit < retryBudget {
				t.Errorf("the next plan may fail %d times", limit)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	p := &progress{cluster: newCluster(&Snapshot{})}
	for _, text := range []string{
		"Authorization: Basic aHVudGVyMg==", `"authorization": "Basic hunter2 x"`, "-H 'Authorization: Bearer hunter2'",
		"proxy-authorization: Digest hunter2",
		"--etcd-s3-secret-key hunter2", "etcd-s3-secret-key=hunter2", "AWS_SECRET_ACCESS_KEY=hunter2",
		"accessKey: hunter2", "aws_access_key_id = hunter2",
		`password: "a hunter2 b"`, `{"password":"x hunter2"}`, "passwd hunter2", "PASSPHRASE=hunter2", "pwd=hunter2",
		"tokenFile: hunter2",
		"curl -u admin:hunter2 x", "curl --user admin:hunter2 x", "https://u:hunter2@x/", "https://:hunter2@x/",
		"K10abcdef0123::server:hunter2",
		"https://hunter2@x/", `"auth":"aHVudGVyMg=="`, "auth: aHVudGVyMg==", "--from-literal=pass=hunter2",
		"psk: hunter2", "DB_PASS=hunter2", "registry_auth: hunter2", "client-key-data: hunter2",
	} {
		if got := p.redact([]byte("before " + text + " after")); strings.Contains(got, "hunter2") ||
			strings.Contains(got, "aHVu") ||
			!strings.HasPrefix(got, "before ") {
			t.Errorf("%q is told as %q", text, got)
		}
	}
	for _, text := range []string{
		"exit status 1: no space left on device", "unit rke2-server.service failed", "authentication failed: x509",
		"get https://a/b?c=d@e",
	} {
		if got := p.redact([]byte(text)); got != text {
			t.Errorf("%q is told as %q", text, got)
		}
	}
}

// Values of Secrets that the configuration refers to are removed even without a key in front of them. ConfigMaps hold
// no secrets.
func TestRedact_KnowsWhatTheConfigurationRefersTo(t *testing.T) {
	p := &progress{cluster: newCluster(&Snapshot{Objects: []Object{
		{Kind: "Secret", Name: "registry", Data: map[string][]byte{"password": []byte("correct-horse")}},
		{Kind: "ConfigMap", Name: "files", Data: map[string][]byte{"motd": []byte("battery-staple")}},
	}})}
	p.s.Tokens.Values.Server = "server-token"
	if got, want := p.redact([]byte("pull as robot:correct-horse, then battery-staple server-token")),
		"pull as robot:*** then battery-staple ***"; strings.ReplaceAll(got, "***,", "***") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Only the end of a long output is used. A secret there stays hidden, even when the text in front of it is cut off and
// the text after it is masked.
func TestRedact_LongOutput(t *testing.T) {
	p := &progress{cluster: newCluster(&Snapshot{})}
	for size := range 5 * maxTail {
		text := strings.Repeat("x ", 3*maxTail) + "password: hunter2 " + strings.Repeat("A", size)
		if got := p.redact([]byte(text)); strings.Contains(got, "hunter") {
			t.Errorf("before %d bytes that are masked: %q", size, got)
		}
	}
}

// Workers must not be newer than their servers, so a powered-off server holds them up. After a while the message says
// what the user can do, and that works.
func TestDecide_AServerThatIsOffIsWaitedForUntilAPersonDecides(t *testing.T) {
	const server = "etcd,control-plane"
	w := ready(t, map[string]string{"a": server, "b": server, "c": server, "p": "control-plane", "q": "control-plane",
		"w": "worker"})
	w.machines["p"].m.NodeLostSince = w.now
	w.edit(restartAll)
	pass := func() (d Decision) {
		for range 8 {
			d = w.run(t)
			for _, name := range []string{"a", "b", "c", "q", "w"} {
				w.machines[name].applyPlan()
				w.machines[name].probes(true)
			}
		}
		return d
	}
	if d := pass(); d.Wait == nil || d.Wait.Failed || strings.Contains(d.Wait.Message, rkev1.RollOutSkipAnnotation) ||
		d.Wait.After <= 0 {
		t.Fatalf("in the beginning: %+v", d.Wait)
	}
	w.now = w.now.Add(lostAfter)
	if d := pass(); !strings.Contains(d.Wait.Message, "p: waiting for plan to be applied"+msgNodeLost) ||
		!strings.HasSuffix(d.Wait.Message, msgNodeLostFor) || !d.Wait.Failed {
		t.Fatalf("after a while: %+v", d.Wait)
	}
	if e := Explain(w.snapshot(t)); !e.Wait.NeedsPerson {
		t.Errorf("explained as %+v", e.Wait)
	}
	before := w.plans()["w"]
	w.machines["p"].m.Skip = true
	if d := pass(); d.Wait == nil || d.Wait.Reason != ReasonLeftOut || w.plans()["w"] == before {
		t.Errorf("without it: %+v", d.Wait)
	}
}

// With other waits present, the message still names the machine that needs the user, and the possible action.
func TestDecide_AServerThatIsOffBesideOneThatIsBusy(t *testing.T) {
	const server = "etcd,control-plane"
	for name, tc := range map[string]struct {
		concurrency, roles string
		want               string
	}{
		"a control plane": {"2", "control-plane",
			"configuring control plane node(s) p,q; the nodes are unreachable for long of p" + msgNodeLostFor},
		"an etcd machine": {"2", "etcd", "p: waiting for plan to be applied" + msgNodeLost},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"a": server, "b": server, "c": server, "p": tc.roles, "q": tc.roles,
				"w": "worker"})
			w.machines["p"].m.NodeLostSince = w.now
			w.edit(func(s *rkev1.RKEControlPlaneSpec) {
				restartAll(s)
				s.UpgradeStrategy.ControlPlaneConcurrency = tc.concurrency
			})
			for range 8 {
				w.run(t)
				for _, name := range []string{"a", "b", "c"} {
					w.machines[name].applyPlan()
					w.machines[name].probes(true)
				}
				if tc.roles == "etcd" {
					w.machines["q"].applyPlan()
					w.machines["q"].probes(true)
				}
			}
			w.now = w.now.Add(lostAfter)
			before := w.plans()["w"]
			d := w.run(t)
			if d.Wait == nil || !d.Wait.Failed || !strings.Contains(d.Wait.Message, tc.want) ||
				!strings.HasSuffix(d.Wait.Message, msgNodeLostFor) || w.plans()["w"] != before {
				t.Errorf("wait is %+v", d.Wait)
			}
		})
	}
}
