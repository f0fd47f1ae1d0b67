package scale

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/tests/contract/attack"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

// Isolation compares the time to provision clusters alone with the time while a hostile node and a greedy tenant attack
// the server. Each figure is the median of several runs, which alternate.
type Isolation struct {
	AloneSeconds    float64 `json:"aloneSeconds"`
	AttackedSeconds float64 `json:"attackedSeconds"`
	Ratio           float64 `json:"ratio"`
	Target          float64 `json:"target"`
	Within          bool    `json:"within"`
}

// isolationRuns is how often the clusters are provisioned in each case.
const isolationRuns = 3

// hanging is the path of a request that a cluster never answers.
const hanging = "/api/v1/namespaces/hanging"

// besieged is a server with a cluster of a tenant that has the plan token of a node and two users.
type besieged struct {
	*testing.T
	st     *stage.Stage
	target *attack.Server
	node   *attack.Node
	users  []string
	path   string
}

func measureIsolation(t *testing.T) Isolation {
	t.Helper()
	b := besiege(t)
	b.provision("warm-up")
	var alone, attacked []float64
	for i := range isolationRuns {
		alone = append(alone, b.provision(fmt.Sprint("alone-", i)))
		end := b.attack()
		attacked = append(attacked, b.provision(fmt.Sprint("attacked-", i)))
		end()
	}
	result := Isolation{AloneSeconds: round(median(alone)), AttackedSeconds: round(median(attacked)), Target: 1.2}
	result.Ratio = float64(int(100*median(attacked)/median(alone))) / 100
	result.Within = result.Ratio <= result.Target
	return result
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// besiege starts a server as a process of its own, and the tenant's cluster.
func besiege(t *testing.T) *besieged {
	t.Helper()
	server := replica.New(t, "besieged", stage.AccountKubeconfig(t))
	b := &besieged{T: t, target: attack.NewServer(server.Address)}
	t.Cleanup(b.target.Close)
	b.st = stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) {
			o.Boot, o.Install, o.Dial = 3*time.Second, 3*time.Second, replica.Dial(server)
			o.API = func() http.Handler { return hangs(memkube.New(memkube.Options{})) }
		},
		Drover: func(*testing.T) { server.Start(); server.AwaitReady() },
	})
	namespace := plane.Namespace(t)
	b.st.Cluster(namespace, "evil", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, 5*time.Minute, func() string { return b.st.WaitingFor(namespace, "evil") })
	for machine := range b.st.World.Machines(namespace) { // a silent machine also ends the agent of its cluster
		b.st.World.Silence(namespace, machine)
	}
	secret, token := b.st.PlanToken(namespace)
	b.node = &attack.Node{Server: b.target, Namespace: namespace, Secret: secret, Token: token}
	b.st.Cluster(namespace, "busy", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, 5*time.Minute, func() string { return b.st.WaitingFor(namespace, "busy") })
	cluster := &provv1.Cluster{}
	b.must(b.st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "busy"}, cluster))
	b.path = "/k8s/clusters/" + cluster.Status.ClusterName + hanging
	b.enroll(namespace)
	return b
}

// hangs answers the hanging path only when the request ends.
func hangs(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, hanging) {
			<-r.Context().Done()
			return
		}
		api.ServeHTTP(w, r)
	})
}

func (b *besieged) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// enroll creates two users of the tenant's cluster.
func (b *besieged) enroll(namespace string) {
	b.Helper()
	core, err := kubernetes.NewForConfig(plane.Config(b.T, "benchmark"))
	b.must(err)
	b.must(b.st.Client.Create(b.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "users"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{provv1.SchemeGroupVersion.Group},
			Resources: []string{"clusters"}, Verbs: []string{"get"}}},
	}))
	b.must(b.st.Client.Create(b.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "users"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "users"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind,
			Name: "system:serviceaccounts:" + namespace}},
	}))
	for _, name := range []string{"user-a", "user-b"} {
		b.must(b.st.Client.Create(b.Context(), &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
		token, err := core.CoreV1().ServiceAccounts(namespace).CreateToken(b.Context(), name,
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		b.must(err)
		b.users = append(b.users, token.Status.Token)
	}
}

// attack floods the plan Secret, and occupies the proxy with 200 requests of each user. It returns when the attacks are
// in progress.
func (b *besieged) attack() (end func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var attacks sync.WaitGroup
	var floods, requests attack.Codes
	attacks.Go(func() { b.node.Flood(ctx, 10, 400<<10, &floods) })
	for _, token := range b.users {
		attacks.Go(func() { b.target.Occupy(ctx, token, b.path, 200, &requests) })
	}
	_, release := b.target.Hold(ctx, 200, b.node.UnreadWatch())
	return func() {
		cancel()
		attacks.Wait()
		release()
		b.Logf("answers to the flood: %s; to the users: %s", &floods, &requests)
	}
}

// provision creates and removes five clusters of two machines. It returns the seconds until all were ready.
func (b *besieged) provision(title string) float64 {
	b.Helper()
	versions := map[string]string{}
	for i := range 5 {
		versions[fmt.Sprint("c", i)] = []string{stage.RKE2, stage.K3s}[i%2]
	}
	namespace := title
	b.st.Namespace(namespace)
	began := time.Now()
	clusters := b.st.Apply(namespace, 2, versions)
	clusters.AwaitReady()
	took := time.Since(began)
	clusters.Delete()
	return took.Seconds()
}
