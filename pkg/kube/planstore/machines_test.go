package planstore

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

func machineObject(version string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u",
		ResourceVersion: version, Generation: 3}}
}

func TestMachines_MarksAreASeparatePatch(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	marks := planner.Marks{InitNode: true, JoinURL: "https://1.2.3.4:6443", RenderVersion: "1",
		Version: "v1.36.3+rke2r1", AgentPin: "pin"}
	if _, err := NewMachines(a).Mark(machineObject("1"), marks); err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"drover.io/agent-pin":"pin","drover.io/found":null,"drover.io/machine-uid":"u","drover.io/render-version":"1","rke.cattle.io/join-url":"https://1.2.3.4:6443","rke.cattle.io/joined-to":null},` +
		`"labels":{"rke.cattle.io/init-node":"true"},"uid":"u"},"spec":{"version":"v1.36.3+rke2r1"}}`
	if diff := cmp.Diff([]string{want}, a.patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	var body struct {
		Metadata metav1.ObjectMeta
		Spec     clusterv1.MachineSpec
	}
	if err := json.Unmarshal([]byte(a.patches[0]), &body); err != nil {
		t.Fatal(err)
	}
	if got := ReadMarks(&clusterv1.Machine{ObjectMeta: body.Metadata, Spec: body.Spec}); got != marks {
		t.Errorf("read back are %+v", got)
	}
	moved := machineObject("1")
	moved.Annotations = map[string]string{rkev1.MachineUIDAnnotation: "first"}
	if _, err := NewMachines(a).Mark(moved, marks); err != nil {
		t.Fatal(err)
	}
	if want = strings.ReplaceAll(want, `"drover.io/machine-uid":"u"`,
		`"drover.io/machine-uid":"first"`); a.patches[1] != want {
		t.Errorf("a moved machine would have another UID on its node: %s", a.patches[1])
	}
	a.err = errors.New("refused")
	if _, err := NewMachines(a).Mark(machineObject("1"), marks); !errors.Is(err, a.err) {
		t.Errorf("error is %v", err)
	}
}

// A write is remembered until caches have had time to show it, and then dropped even without further writes.
func TestMachines_RemembersWritesBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMachines(&machineAPI{})
		known := func(uid types.UID) bool { return s.newest(machineOf(uid, "1")).ResourceVersion == "2" }
		size := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.stored)
		}
		for i := range 5000 { // as during the upgrade of a large fleet
			s.remember(machineOf(types.UID(strconv.Itoa(i)), "2"))
		}
		time.Sleep(shownAfter / 2)
		s.remember(machineOf("later", "2"))
		time.Sleep(shownAfter/2 - time.Millisecond)
		if !known("0") || !known("4999") || !known("later") {
			t.Error("a write is forgotten too early for the caches")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if known("0") || size() != 1 {
			t.Errorf("%d writes are remembered, want the later one", size())
		}
		time.Sleep(2 * shownAfter)
		synctest.Wait()
		if size() != 0 {
			t.Errorf("%d writes are remembered after a long pause", size())
		}
		s.remember(machineOf("again", "2"))
		time.Sleep(2 * shownAfter)
		synctest.Wait()
		if size() != 0 {
			t.Error("later writes are never forgotten")
		}
	})
}

// machineOf returns a Machine with a UID and a version.
func machineOf(uid types.UID, version string) *clusterv1.Machine {
	m := machineObject(version)
	m.UID = uid
	return m
}

// A cached object replaces a remembered write once it is at least as new.
func TestMachines_FreshCachesAreUsed(t *testing.T) {
	for version, shown := range map[string]string{"1": "2", "2": "cached", "3": "cached"} {
		s := NewMachines(&machineAPI{})
		s.remember(machineOf("u", "2"))
		cached := machineOf("u", version)
		got := s.newest(cached)
		if (got == cached) != (shown == "cached") || len(s.stored) == 0 != (shown == "cached") {
			t.Errorf("the cache shows version %s: got version %s, %d remembered", version, got.ResourceVersion,
				len(s.stored))
		}
	}
}
