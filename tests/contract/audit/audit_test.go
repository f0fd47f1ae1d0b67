package audit

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadWrites(t *testing.T) {
	writes, err := ReadWrites("testdata/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{
			UserAgent: "drover/v1 (linux/amd64)", User: "drover-admin", Verb: "create", Group: "cluster.x-k8s.io",
			Resource:  "clusters",
			Namespace: "fleet-default", Name: "c", Code: 201, Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		{
			UserAgent: "drover/v1 (linux/amd64)", User: "drover-admin", Verb: "update", Group: "coordination.k8s.io",
			Resource:  "leases",
			Namespace: "drover-system", Name: "l", Code: 409, Time: time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC),
		},
		{
			UserAgent: "kubectl/v1.36.3", User: "x", Verb: "patch", Resource: "pods", Subresource: "status",
			Namespace: "d", Name: "p", Code: 200,
			Time: time.Date(2030, 1, 2, 3, 4, 7, 0, time.UTC),
		},
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"drover": 2, "kubectl": 1}, CountByAgent(writes)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if !writes[1].Bookkeeping() || writes[0].Bookkeeping() {
		t.Error("only the Lease is bookkeeping")
	}
	refusals, err := ReadRefusals("testdata/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	refused := []Write{{
		UserAgent: "drover/v1 (linux/amd64)", User: "system:serviceaccount:drover-system:drover", Verb: "list",
		Resource: "nodes", Code: 403,
		Time: time.Date(2030, 1, 2, 3, 4, 8, 0, time.UTC),
	}}
	if diff := cmp.Diff(refused, refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if none, err := ReadWrites(filepath.Join(t.TempDir(), "missing")); len(none) > 0 || err != nil {
		t.Errorf("a log that does not exist holds %v, %v", none, err)
	}
}
