package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/reach/clusteragent"
	"github.com/drover-io/drover/tests/contract/plane"
)

const (
	crowdSize = 64
	// flapEvery is the interval at which all agents lose their sessions.
	flapEvery = 5 * time.Second
	// slowest is the longest time of a request. A watch ends by itself earlier.
	slowest, watched = 20 * time.Second, 2 * time.Second
)

// crowd is many users of several clusters.
type crowd struct {
	*world
	clusters []string // their IDs
	users    []string // their tokens
	client   *http.Client

	answered, lost, watches atomic.Int64
}

// TestCrowd_EveryAnswerIsForWhoAsked: many users send requests to two clusters whose agents lose their sessions every
// five seconds. No user gets another user's or another cluster's answer. No request takes too long, and failed reads
// ask the client to retry. The test takes 16 seconds. With DROVER_TEST_ALL, which `make test-contract` sets with
// RUN=TestCrowd or FULL=1, it takes a minute.
func TestCrowd_EveryAnswerIsForWhoAsked(t *testing.T) {
	lasts := 16 * time.Second
	if os.Getenv("DROVER_TEST_ALL") != "" {
		lasts = time.Minute
	}
	server := newServer(t, "drover")
	gate := newGate(t, server)
	server.ServerURL = "https://" + gate.address
	server.Start()
	server.AwaitReady()
	c := &crowd{world: newWorldOf(t, server)}
	namespace := plane.Namespace(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.authority()))
	c.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: crowdSize,
		TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(c.client.CloseIdleConnections)
	c.enroll(namespace)
	for i, downstream := range []*managementplane.Plane{c.downstream, plane.Another(t)} {
		c.join(namespace, fmt.Sprint("k", i), downstream)
	}

	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var asking sync.WaitGroup
	for user := range crowdSize {
		asking.Go(func() {
			for ctx.Err() == nil {
				c.count(c.ask(user, rand.IntN(len(c.clusters))))
				time.Sleep(rand.N(100 * time.Millisecond)) // the pace of a user
			}
		})
	}
	cuts, ended := 0, 0
	for flap := time.NewTicker(flapEvery); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			flap.Stop()
		case <-flap.C:
			cuts, ended = cuts+1, ended+gate.cut()
		}
	}
	asking.Wait()
	for user := range crowdSize {
		// Agents whose sessions repeatedly end early pause for up to half a minute.
		plane.Until(t, time.Minute, func() string {
			if err := errors.Join(c.ask(user, 0), c.ask(user, 1)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	t.Logf("%d answers, events of %d watches; %d lost by %d cuts of %d sessions", c.answered.Load(), c.watches.Load(),
		c.lost.Load(), cuts, ended)
	if c.answered.Load() < 5*crowdSize || c.watches.Load() == 0 || c.lost.Load() == 0 || ended < cuts {
		t.Error("too few requests")
	}
}

// errLost is the error of a request whose agent's session has ended or did not exist.
var errLost = errors.New("the cluster was not reached")

// count counts the result of a request.
func (c *crowd) count(err error) {
	switch {
	case err == nil:
		c.answered.Add(1)
	case errors.Is(err, errLost):
		c.lost.Add(1)
	default:
		c.Error(err)
	}
}

// enroll creates the users, which may get all Clusters of the namespace.
func (c *crowd) enroll(namespace string) {
	c.Helper()
	c.kubectlOK(plane.Kubeconfig(c), "", "-n", namespace, "create", "role", "crowd", "--verb=get",
		"--resource=clusters.provisioning.cattle.io")
	c.kubectlOK(plane.Kubeconfig(c), "", "-n", namespace, "create", "rolebinding", "crowd", "--role=crowd",
		"--group=system:serviceaccounts:"+namespace)
	accounts := c.upstream.CoreV1().ServiceAccounts(namespace)
	for user := range crowdSize {
		_, err := accounts.Create(c.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: userName(user)}}, metav1.CreateOptions{})
		c.must(err)
		made, err := accounts.CreateToken(c.Context(), userName(user), &authenticationv1.TokenRequest{},
			metav1.CreateOptions{})
		c.must(err)
		c.users = append(c.users, made.Status.Token)
	}
}

func userName(user int) string { return fmt.Sprint("user-", user) }

// join creates a cluster in which users can read only their own objects.
func (c *crowd) join(namespace, name string, downstream *managementplane.Plane) {
	c.Helper()
	id := c.attach(namespace, name, downstream)
	config := downstream.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	c.must(err)
	_, err = client.CoreV1().Namespaces().Create(c.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "crowd"}}, metav1.CreateOptions{})
	c.must(err)
	for user := range crowdSize {
		c.furnish(client, namespace, name, userName(user))
	}
	c.clusters = append(c.clusters, id)
}

// attach imports a cluster and returns its ID. It runs the cluster's agent in this process, because two agent pods
// would share the ports of this host.
func (w *world) attach(namespace, name string, downstream *managementplane.Plane) (id string) {
	w.Helper()
	id = w.cluster(namespace, name)
	address := w.command(id)
	_, manifest := w.fetch(address, nil)
	objects := strings.Split(manifest, "---\n")
	for i, object := range objects {
		if strings.Contains(object, "kind: Deployment") {
			objects[i] = ""
		}
	}
	w.kubectlOK(downstream.Kubeconfig(), strings.Join(objects, "---\n"), "apply", "-f", "-")
	w.runAgent(id, address, downstream)
	w.awaitCondition(id, "Connected", "True", time.Minute)
	return id
}

// furnish creates the objects that one user may read in one cluster.
func (c *crowd) furnish(client kubernetes.Interface, namespace, cluster, user string) {
	c.Helper()
	named := metav1.ObjectMeta{Name: user}
	_, err := client.CoreV1().ConfigMaps("crowd").Create(c.Context(),
		&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"cluster": cluster}}, metav1.CreateOptions{})
	c.must(err)
	_, err = client.RbacV1().Roles("crowd").Create(c.Context(),
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{user},
		}}}, metav1.CreateOptions{})
	c.must(err)
	_, err = client.RbacV1().RoleBindings("crowd").Create(c.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
			Name: "system:drover:serviceaccount:" + namespace + ":" + user}},
	}, metav1.CreateOptions{})
	c.must(err)
}

// runAgent runs the agent of a cluster until the test ends.
func (w *world) runAgent(id, address string, downstream *managementplane.Plane) {
	w.Helper()
	file := func(name, content string) string {
		path := filepath.Join(w.dir, id+"-"+name)
		w.must(os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	config := downstream.RESTConfig()
	registration, _, _ := strings.Cut(address[strings.LastIndex(address, "/")+1:], "_")
	log := logrus.New()
	log.SetOutput(io.Discard)
	options := clusteragent.Options{
		ServerURL: w.server.ServerURL, TokenFile: file("registration", registration), CAFile: file("ca", w.authority()),
		APIServer: config.Host, APIServerCAFile: file("api-server-ca", string(config.CAData)),
		APIServerTokenFile: file("account", w.kubectlOK(downstream.Kubeconfig(), "", "-n", "cattle-system", "create",
			"token", "cattle")), Log: log,
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := clusteragent.Run(ctx, options); err != nil && ctx.Err() == nil {
			w.Errorf("agent of %s: %v", id, err)
		}
	})
	w.Cleanup(func() { cancel(); running.Wait() })
}

// ask sends one of the requests of a user, and checks that the answer is for this user and from this cluster.
func (c *crowd) ask(user, cluster int) error {
	path, method, body := "/api/v1/namespaces/crowd/configmaps/"+userName(user), http.MethodGet, ""
	check := func(answer []byte) error { return c.isOf(answer, user, cluster) }
	switch rand.IntN(10) {
	case 0, 1, 2:
		path, method, body = "/apis/authentication.k8s.io/v1/selfsubjectreviews", http.MethodPost,
			`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
		check = func(answer []byte) error { return isCalled(answer, user) }
	case 3:
		path = fmt.Sprintf(
			"/api/v1/namespaces/crowd/configmaps?watch=true&fieldSelector=metadata.name%%3D%s&timeoutSeconds=%d",
			userName(user), int(watched.Seconds()))
		check = func(answer []byte) error { return c.isWatched(answer, user, cluster) }
	}
	ctx, cancel := context.WithTimeout(c.Context(), slowest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+c.server.Address+"/k8s/clusters/"+
		c.clusters[cluster]+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.users[user])
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s requests %s: %w", userName(user), path, err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s requests %s: no answer in %s", userName(user), path, slowest)
	case answer.StatusCode == http.StatusServiceUnavailable &&
		(answer.Header.Get("Retry-After") != "" || method == http.MethodPost), err != nil:
		return errLost // the post may have arrived, so the answer does not ask for a retry
	case answer.StatusCode/100 != 2:
		return fmt.Errorf("%s requests %s: %s with Retry-After %q: %s", userName(user), path, answer.Status,
			answer.Header.Get("Retry-After"), content)
	}
	return check(content)
}

// isOf fails unless the ConfigMap is the user's ConfigMap of the cluster.
func (c *crowd) isOf(content []byte, user, cluster int) error {
	var got corev1.ConfigMap
	if err := json.Unmarshal(content, &got); err != nil {
		return fmt.Errorf("the answer is %s: %w", content, err)
	}
	if want := fmt.Sprint("k", cluster); got.Name != userName(user) || got.Data["cluster"] != want {
		return fmt.Errorf("%s requested %s and got the object of %s in %s", userName(user), want, got.Name,
			got.Data["cluster"])
	}
	return nil
}

// isWatched fails for events of other ConfigMaps than the user's. A watch that was cut before its first event has none.
func (c *crowd) isWatched(content []byte, user, cluster int) error {
	for line := range strings.Lines(string(content)) {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return fmt.Errorf("the watch sends %s: %w", line, err)
		}
		if err := c.isOf(event.Object, user, cluster); err != nil {
			return fmt.Errorf("event %s: %w", event.Type, err)
		}
		c.watches.Add(1)
	}
	return nil
}

// isCalled fails if the cluster sees another user.
func isCalled(content []byte, user int) error {
	var got authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(content, &got); err != nil {
		return fmt.Errorf("the answer is %s: %w", content, err)
	}
	if !strings.HasSuffix(got.Status.UserInfo.Username, ":"+userName(user)) {
		return fmt.Errorf("%s is %s in the cluster", userName(user), got.Status.UserInfo.Username)
	}
	return nil
}
