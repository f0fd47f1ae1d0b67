package leastprivilege

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/rights"
	"github.com/drover-io/drover/tests/contract/plane"
)

// told are stories that run in memory under the same roles: operations, restores, existing hosts, replacements, changes
// of drivers, and objects overwritten by other clients.
var told = []struct{ folder, tests string }{
	{"./pkg/testkit/stories", "PutRight|IsDeletedWithout|PoolsComeAndGo"},
	{"./pkg/controllers/planner", "TestStory_(Restore|Snapshots|ThereAre|PausedPoolsAnd|LostServers)"},
	{"./pkg/controllers/machinenodelookup", "TestStory_(MachineGetsItsNode|LeavesAlone)"},
	{"./pkg/controllers/unmanaged", "TestStory"},
	{"./pkg/controllers/machineprovision",
		"TestStory_(MachineBecomes|FailedCreate|PodThat|FailedRemoval|DeletionDuring)"},
	{"./pkg/controllers/bootstrap", "TestToken|TestStory_(Rights|Settled|Other|MachinesIntroduce)"},
	{"./pkg/controllers/snapshots", "TestStory_(SnapshotsFollow|ASnapshotNeeds)"},
	{"./pkg/controllers/nodedriver", "TestStory"},
	{"./pkg/controllers/machineconfig", "TestStory"},
	{"./pkg/controllers/credential", "TestStory_(CreatorOf|NameOf)"},
	{"./pkg/controllers/fleetcluster", "TestStory"},
	{"./pkg/controllers/fleetworkspace", "TestStory"},
	{"./pkg/controllers/managedchart", "TestStory"},
}

// usedInMemory runs those stories, which fail for every rejected request, and returns their requests. With -update
// nothing is rejected.
func usedInMemory(t *testing.T) []rights.Grant {
	t.Helper()
	record := t.TempDir()
	for _, story := range told {
		test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", story.tests, story.folder)
		test.Dir = plane.Root(t)
		test.Env = append(os.Environ(), rights.Record+"="+record)
		if *update {
			test.Env = append(test.Env, rights.Unbound+"=true")
		}
		if out, err := test.CombinedOutput(); err != nil || bytes.Contains(out, []byte("no tests to run")) {
			t.Errorf("%s %s: %v\n%s", story.folder, story.tests, err, out)
		}
	}
	used, err := rights.Used(record)
	check(t, err)
	return used
}
