package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/operate/diagnose"
)

func TestDiagnose_NamesTheMissingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		code, out, problems := look(t, api, "diagnose", "young")
		if code != 2 || problems != "" || !strings.Contains(out, "no server has ever led here") ||
			strings.Count(out, "Broken") != 2 {
			t.Errorf("exit code %d, %s\n%s", code, problems, out)
		}
		lease := &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("drover-0"),
				RenewTime: &metav1.MicroTime{Time: time.Now()}},
		}
		check(t, api.Add(lease))
		var reports [2]diagnose.Report
		code, out, _ = look(t, api, "diagnose", "young", "-o", "json")
		check(t, json.Unmarshal([]byte(out), &reports[0]))
		if found := reports[0].Findings; code != 2 || len(found) != 1 || found[0].Name != diagnose.LinkOwner {
			t.Errorf("exit code %d, findings %+v", code, found)
		}
		_, out, _ = look(t, api, "diagnose", "young", "-o", "yaml")
		check(t, yaml.Unmarshal([]byte(out), &reports[1]))
		if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
			t.Errorf("YAML differs from JSON (-json +yaml):\n%s", diff)
		}
		if code, _, problems = look(t, api, "diagnose", "absent"); code != 1 ||
			!strings.Contains(problems, "there is no Cluster absent in namespace fleet-default") {
			t.Errorf("exit code %d, %q", code, problems)
		}
		if code, out, _ = look(t, api, cobraComplete, "diagnose", ""); code != 0 || !strings.HasPrefix(out, "young\n") {
			t.Errorf("completion: %d %q", code, out)
		}
		if writes := api.Writes("drover"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
}
