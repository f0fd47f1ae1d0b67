package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record is what no move and no restore may change.
type record struct {
	// Plans are the plans of machines by the names of their Secrets. They are checksums, because plans contain secrets.
	Plans map[string]string
	// Machines are the names of all Machines. Hosts record what was done on their hosts.
	Machines []string
	Hosts    map[string]fakeagent.Machine
}

func recordOf(t *testing.T, st *stage.Stage, namespace string) record {
	t.Helper()
	out := record{Plans: map[string]string{}, Hosts: st.World.Machines(namespace)}
	for _, secret := range plansOf(t, st, namespace) {
		sum := sha256.Sum256(secret.Data[nodeplan.KeyPlan])
		out.Plans[secret.Name] = hex.EncodeToString(sum[:])
	}
	machines := &clusterv1.MachineList{}
	check(t, st.Client.List(t.Context(), machines, client.InNamespace(namespace)))
	for i := range machines.Items {
		out.Machines = append(out.Machines, machines.Items[i].Name)
	}
	return out
}

func plansOf(t *testing.T, st *stage.Stage, namespace string) []corev1.Secret {
	t.Helper()
	secrets := &corev1.SecretList{}
	check(t, st.Client.List(t.Context(), secrets, client.InNamespace(namespace)))
	var out []corev1.Secret
	for i := range secrets.Items {
		if secrets.Items[i].Type == rkev1.SecretTypeMachinePlan {
			out = append(out, secrets.Items[i])
		}
	}
	return out
}

// ask requests a plan Secret from Drover's endpoint as an agent does, and returns the status code.
func ask(t *testing.T, st *stage.Stage, plan corev1.Secret, token string) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/"+plan.Namespace+"/secrets/"+plan.Name, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	st.Server.Handler().ServeHTTP(answer, r)
	return answer.Code
}

// awaitLetIn waits until the endpoint accepts an agent, because caches may lag.
func awaitLetIn(t *testing.T, st *stage.Stage, plan corev1.Secret, token string) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		if code := ask(t, st, plan, token); code != http.StatusOK {
			return "the agent gets " + http.StatusText(code)
		}
		return ""
	})
}

// writes returns Drover's writes to a namespace of a management plane since a moment.
func writes(t *testing.T, p *managementplane.Plane, namespace string, since time.Time) []audit.Write {
	t.Helper()
	all, err := audit.ReadWrites(p.AuditLog())
	check(t, err)
	var out []audit.Write
	for _, write := range all {
		if write.Namespace == namespace && write.Time.After(since) && len(write.UserAgent) >= len(stage.DroverAgent) &&
			write.UserAgent[:len(stage.DroverAgent)] == stage.DroverAgent {
			out = append(out, write)
		}
	}
	return out
}

// take adopts a cluster without agreeing to anything optional. No machine may be restarted or replaced.
func take(t *testing.T, st *stage.Stage, namespace, name string) {
	t.Helper()
	a := adoption(t, st, namespace, name)
	if a.Result != planner.ClassNone {
		t.Errorf("the adoption of %s would change machines: %s\n%+v\n%+v", name, a.Result, a.Machines, a.Objects)
	}
	c, err := clients.New(st.Config("tester"), clients.Options{Version: "test", WithoutDynamic: true})
	check(t, err)
	defer c.Stop()
	check(t, adopt.Take(t.Context(), c, a, adopt.Limits{Now: time.Now()}))
}

func adoption(t *testing.T, st *stage.Stage, namespace, name string) inspect.Adoption {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	table, err := releases.Load(ctx, "", nil)
	check(t, err)
	r, err := inspect.New(ctx, inspect.Options{Config: st.Config("tester"), Version: "test", Releases: table},
		namespace)
	check(t, err)
	defer r.Close()
	a, err := r.Adoption(ctx, name, "")
	check(t, err)
	return a
}
