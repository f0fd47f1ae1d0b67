package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var (
	key   = bytes.Repeat([]byte{7}, tenancy.KeySize)
	alice = tenancy.Author{Username: "alice", UID: "1", Groups: []string{"team-a"},
		Extra: map[string][]string{"k": {"v"}}}
	secret = types.NamespacedName{Namespace: "cattle-global-data", Name: "cc"}
)

// world is an API server that knows alice's rights, and the cluster that she wrote.
type world struct {
	mu      sync.Mutex
	may     bool
	broken  bool
	asked   int
	woken   []string
	cluster *provv1.Cluster
	checker *access.Checker
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{may: true, cluster: build.Cluster("demo")}
	w.cluster.Spec.CloudCredentialSecretName = "cattle-global-data:cc"
	text, err := tenancy.WriteGrants(nil, w.cluster, alice, tenancy.References(w.cluster), key)
	if err != nil {
		t.Fatal(err)
	}
	w.cluster.Annotations = map[string]string{tenancy.GrantsAnnotation: text}
	log := logrus.New()
	log.SetOutput(t.Output())
	w.checker = access.New(access.Options{Key: key, Clusters: w, Review: w.review, Log: log})
	w.checker.OnChange(func(cluster types.NamespacedName) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.woken = append(w.woken, cluster.String())
	})
	return w
}

func (w *world) List(string, labels.Selector) ([]*provv1.Cluster, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cluster == nil {
		return nil, nil
	}
	return []*provv1.Cluster{w.cluster}, nil
}

func (w *world) review(_ context.Context, author tenancy.Author, name types.NamespacedName) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.broken {
		return false, errors.New("the API server does not answer")
	}
	return w.may && author.Username == "alice" && name == secret, nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) want(t *testing.T, want access.Verdict, woken int) {
	t.Helper()
	got, because := w.checker.Check(w.cluster, secret, nil)
	if got != want || want == access.Allowed && because != "" || want == access.Denied && because == "" {
		t.Errorf("verdict %d because %q, want %d", got, because, want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.woken) != woken {
		t.Errorf("wake-ups %v, want %d", w.woken, woken)
	}
}

// run runs a test that begins with an unanswered question.
func run(t *testing.T, prepare func(*world), tell func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if prepare != nil {
			prepare(w)
		}
		w.want(t, access.Unknown, 0)
		go w.checker.Run(t.Context())
		synctest.Wait()
		tell(t, w)
	})
}

// The first question is answered in the background. A withdrawn or restored right is noticed within the interval.
func TestChecker_FollowsTheRightsOfTheAuthor(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		w.want(t, access.Allowed, 1)
		w.set(func() { w.may = false })
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		w.want(t, access.Denied, 2)
		w.set(func() { w.may = true })
		time.Sleep(time.Minute)
		synctest.Wait()
		w.want(t, access.Allowed, 3)
	})
}

// A settled cluster costs one question in each interval.
func TestChecker_AsksOncePerInterval(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		for range 100 {
			w.checker.Check(w.cluster, secret, nil)
		}
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked != 11 || len(w.woken) != 1 {
			t.Errorf("%d reviews, %d wake-ups", w.asked, len(w.woken))
		}
	})
}

// An API server that does not answer changes no verdict, and is asked again.
func TestChecker_KeepsItsAnswers(t *testing.T) {
	run(t, func(w *world) { w.broken = true }, func(t *testing.T, w *world) {
		time.Sleep(time.Minute)
		synctest.Wait()
		w.want(t, access.Unknown, 1) // because of the report that there is no answer
		w.set(func() { w.broken = false })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.want(t, access.Allowed, 2)
		w.set(func() { w.broken, w.may = true, false })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.want(t, access.Allowed, 2)
	})
}

// A short delay of the API server is not reported. Repeated failures are.
func TestChecker_ReportsAMissingAnswer(t *testing.T) {
	run(t, func(w *world) { w.broken = true }, func(t *testing.T, w *world) {
		for _, tc := range []struct {
			after time.Duration
			want  bool
		}{{after: 6 * time.Second}, {after: time.Minute, want: true}} {
			time.Sleep(tc.after)
			synctest.Wait()
			verdict, because := w.checker.Check(w.cluster, secret, nil)
			if verdict != access.Unknown || (because != "") != tc.want {
				t.Errorf("after %s: verdict %d because %q", tc.after, verdict, because)
			}
		}
	})
}

// A reference that the Cluster no longer contains cannot be granted: the advice is an offer only.
func TestChecker_SuggestsTheRemedy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster.Annotations = nil
	for name, renew := range map[string]bool{"cc": true, "former": false} {
		_, because := w.checker.Check(w.cluster, types.NamespacedName{Namespace: "cattle-global-data", Name: name}, nil)
		if strings.Contains(because, "to renew") != renew || !strings.Contains(because, "list "+build.Namespace+
			"/demo in annotation") {
			t.Errorf("%s: %s", name, because)
		}
	}
}

func TestChecker_ForgetsDeletedClusters(t *testing.T) {
	run(t, nil, func(t *testing.T, w *world) {
		was := w.cluster
		w.set(func() { w.cluster = nil })
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if verdict, _ := w.checker.Check(was, secret, nil); verdict != access.Unknown {
			t.Errorf("verdict %d", verdict)
		}
	})
}

// The checker decides without a question for a Secret of the cluster's namespace, an offered Secret, and a missing
// grant.
func TestChecker_DecidesWithoutTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bare := build.Cluster("demo")
	bare.Spec.CloudCredentialSecretName = w.cluster.Spec.CloudCredentialSecretName
	offer := map[string]string{"rke.cattle.io/object-authorized-for-clusters": build.Namespace + "/demo"}
	for name, tc := range map[string]struct {
		secret      types.NamespacedName
		annotations map[string]string
		want        access.Verdict
	}{
		"its own namespace": {secret: types.NamespacedName{Namespace: build.Namespace, Name: "x"},
			want: access.Allowed},
		"offered":  {secret: secret, annotations: offer, want: access.Allowed},
		"nobody's": {secret: secret, want: access.Denied},
	} {
		if got, because := w.checker.Check(bare, tc.secret, tc.annotations); got != tc.want {
			t.Errorf("%s: %d because %q, want %d", name, got, because, tc.want)
		}
	}
	if w.asked > 0 {
		t.Errorf("%d reviews", w.asked)
	}
}

// answering returns an API server that allows everything, and the last question.
func answering() (kubernetes.Interface, *authorizationv1.SubjectAccessReviewSpec) {
	client := fake.NewClientset()
	spec := &authorizationv1.SubjectAccessReviewSpec{}
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object,
		error) {
		review, ok := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		if !ok {
			return true, nil, errors.New("no answer of the review")
		}
		*spec, review = review.Spec, review.DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	return client, spec
}

func TestReview_AsksForTheWholeAuthor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ask  func(kubernetes.Interface) (bool, error)
		want authorizationv1.ResourceAttributes
	}{
		"the right to get a Secret": {
			func(client kubernetes.Interface) (bool, error) {
				return access.Review(client)(t.Context(), alice, secret)
			},
			authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "secrets",
				Namespace: "cattle-global-data", Name: "cc"},
		},
		"the trust in a user": {
			func(client kubernetes.Interface) (bool, error) { return access.Trust(client)(t.Context(), alice) },
			authorizationv1.ResourceAttributes{Verb: "create", Group: "management.cattle.io", Version: "*",
				Resource: "clusters"},
		},
	} {
		client, spec := answering()
		if allowed, err := tc.ask(client); err != nil || !allowed {
			t.Fatalf("%s: allowed %t, error %v", name, allowed, err)
		}
		got := fmt.Sprint(spec.User, spec.UID, spec.Groups, spec.Extra, *spec.ResourceAttributes)
		want := fmt.Sprint("alice", "1", []string{"team-a"}, map[string][]string{"k": {"v"}}, tc.want)
		if got != want {
			t.Errorf("%s: review %s\nwant  %s", name, got, want)
		}
	}
}

// Without an answer, a review fails and allows nothing.
func TestReview_FailsWithTheAPIServer(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no answer")
	})
	if allowed, err := access.Review(client)(t.Context(), alice, secret); allowed || err == nil ||
		!strings.Contains(err.Error(), "alice may get Secret cattle-global-data/cc: no answer") {
		t.Errorf("a Secret: %t, %v", allowed, err)
	}
	if allowed, err := access.Trust(client)(t.Context(), alice); allowed || err == nil ||
		!strings.Contains(err.Error(), "alice may create clusters.management.cattle.io: no answer") {
		t.Errorf("trust: %t, %v", allowed, err)
	}
}

// All replicas of a server sign with the same key, also after a restart.
func TestKey_IsMadeOnce(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	first, err := access.Key(t.Context(), client, "drover-system")
	if err != nil {
		t.Fatal(err)
	}
	second, err := access.Key(t.Context(), client, "drover-system")
	if err != nil || !bytes.Equal(first, second) || len(first) != tenancy.KeySize {
		t.Errorf("keys of %d and %d bytes, error %v", len(first), len(second), err)
	}
	other, err := access.Key(t.Context(), fake.NewClientset(), "drover-system")
	if err != nil || bytes.Equal(first, other) {
		t.Errorf("two management clusters have the same key, error %v", err)
	}
}
