package access

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// Verdict is whether a Cluster may use a Secret.
type Verdict int

const (
	// Unknown is the answer until the API server has been asked. The cluster is woken when it has.
	Unknown Verdict = iota
	// Allowed lets it be used.
	Allowed
	// Denied does not.
	Denied
)

const (
	defaultRefresh = time.Minute
	retryAfter     = 5 * time.Second
	// tellAfter is how many times a question is asked in vain before the clusters that wait for the answer are told.
	tellAfter = 3
	// atOnce is how many questions the API server is asked at the same time.
	atOnce = 4
)

// ClusterCache reads Clusters from memory.
type ClusterCache interface {
	List(namespace string, selector labels.Selector) ([]*provv1.Cluster, error)
}

// Options are what a Checker works with.
type Options struct {
	// Key signs grants.
	Key      []byte
	Clusters ClusterCache
	Review   Reviewer
	// Refresh is how often the API server is asked again; one minute when it is zero. It is how long a right that was withdrawn may
	// still be used.
	Refresh time.Duration
	Log     logrus.FieldLogger
}

// Checker knows which Clusters may use which Secrets of other namespaces. Its methods may be called from several goroutines.
type Checker struct {
	Options

	mu      sync.Mutex
	notify  []func(cluster types.NamespacedName)
	answers map[question]bool
	// asking are questions without an answer yet, with the clusters that wait for it.
	asking map[question]map[types.NamespacedName]bool
	// vain is how many times each of these was asked without an answer.
	vain map[question]int
	wake chan struct{}
}

// question is whether an author, as JSON, may get a Secret.
type question struct {
	author string
	secret types.NamespacedName
}

// New returns a Checker. It answers when it runs.
func New(o Options) *Checker {
	if o.Refresh == 0 {
		o.Refresh = defaultRefresh
	}
	if o.Log == nil {
		o.Log = logrus.StandardLogger()
	}
	return &Checker{
		Options: o, answers: map[question]bool{}, asking: map[question]map[types.NamespacedName]bool{}, vain: map[question]int{},
		wake: make(chan struct{}, 1),
	}
}

// OnChange calls f with every Cluster for which an answer has come, or is another one now.
func (c *Checker) OnChange(f func(cluster types.NamespacedName)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify = append(c.notify, f)
}

// Check says whether a Cluster may use a Secret, and when it may not, why; and why that is not known, when that has lasted for some time. A Cluster
// uses what is in its own namespace. annotations are those of the Secret, nil when it does not exist: whether it does makes no difference to who may
// not use it. It waits for nobody.
func (c *Checker) Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (Verdict, string) {
	own := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if secret.Namespace == own.Namespace || tenancy.Offered(annotations, own) {
		return Allowed, ""
	}
	author, granted := tenancy.Grants(cluster, c.Key)[secret]
	if !granted {
		return Denied, "Secret " + secret.String() + " is in another namespace, and nobody who may get it is known to have named it here: " + remedy(cluster, secret)
	}
	asked := questionOf(author, secret)
	c.mu.Lock()
	defer c.mu.Unlock()
	allowed, known := c.answers[asked]
	switch {
	case !known:
		c.ask(asked, own)
		if c.vain[asked] >= tellAfter {
			return Unknown, "Secret " + secret.String() + " is in another namespace, and whether who named it here may get it cannot be found out: " +
				"the API server does not answer Drover's SubjectAccessReviews. Its log has the error; asking again"
		}
		return Unknown, ""
	case !allowed:
		return Denied, "Secret " + secret.String() + " is in another namespace, and who named it here may not get it any more: " + remedy(cluster, secret)
	}
	return Allowed, ""
}

// remedy is what helps a Cluster that may not use a Secret. It changes nothing of the Cluster's spec. What the Cluster does not name any more, as a
// snapshot that was taken before does, nobody can be granted.
func remedy(cluster *provv1.Cluster, secret types.NamespacedName) string {
	offer := "list " + cluster.Namespace + "/" + cluster.Name + " in annotation " + rkev1.AuthorizedObjectAnnotation + " of the Secret"
	if !slices.ContainsFunc(tenancy.References(cluster), func(r tenancy.Reference) bool { return r.NamespacedName == secret }) {
		return offer
	}
	return "let somebody who may get it set annotation " + tenancy.GrantsAnnotation + " of the Cluster to " + tenancy.Renew + ", or " + offer
}

// ask notes a question. The lock is held.
func (c *Checker) ask(asked question, cluster types.NamespacedName) {
	if c.asking[asked] == nil {
		c.asking[asked] = map[types.NamespacedName]bool{}
	}
	c.asking[asked][cluster] = true
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func questionOf(author tenancy.Author, secret types.NamespacedName) question {
	text, _ := json.Marshal(author) // strings always encode
	return question{author: string(text), secret: secret}
}

// Run asks the API server until ctx ends: new questions at once, the others at intervals.
func (c *Checker) Run(ctx context.Context) {
	refresh := time.NewTicker(c.Refresh)
	defer refresh.Stop()
	retry := time.NewTicker(retryAfter)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			c.review(ctx, c.open())
		case <-retry.C:
			c.review(ctx, c.open())
		case <-refresh.C:
			c.review(ctx, c.standing())
		}
	}
}

// open are the questions that have no answer yet.
func (c *Checker) open() map[question]map[types.NamespacedName]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.asking)
}

// standing are the questions about all references that there are. What is known about others is forgotten.
func (c *Checker) standing() map[question]map[types.NamespacedName]bool {
	clusters, err := c.Clusters.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		c.Log.WithError(err).Error("Cannot list clusters to see who may use what")
		return nil
	}
	found := map[question]map[types.NamespacedName]bool{}
	for _, cluster := range clusters {
		for secret, author := range tenancy.Grants(cluster, c.Key) {
			asked := questionOf(author, secret)
			if found[asked] == nil {
				found[asked] = map[types.NamespacedName]bool{}
			}
			found[asked][types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.answers, func(known question, _ bool) bool { return found[known] == nil })
	maps.DeleteFunc(c.vain, func(asked question, _ int) bool { return found[asked] == nil && c.asking[asked] == nil })
	return found
}

// review asks, and wakes the clusters to which an answer is news. Without an answer the old one stays, and without an old one the question
// does.
func (c *Checker) review(ctx context.Context, asked map[question]map[types.NamespacedName]bool) {
	var running sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for question, clusters := range asked {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			c.reviewOne(ctx, question, slices.Collect(maps.Keys(clusters)))
		})
	}
	running.Wait()
}

func (c *Checker) reviewOne(ctx context.Context, asked question, clusters []types.NamespacedName) {
	var author tenancy.Author
	_ = json.Unmarshal([]byte(asked.author), &author) // it was encoded here
	allowed, err := c.Review(ctx, author, asked.secret)
	if err != nil {
		if ctx.Err() == nil {
			c.Log.WithError(err).Warn("Cannot find out whether a Secret may be used; trying again")
			c.inVain(asked, clusters)
		}
		return
	}
	c.mu.Lock()
	before, known := c.answers[asked]
	c.answers[asked] = allowed
	for cluster := range c.asking[asked] {
		if !slices.Contains(clusters, cluster) {
			clusters = append(clusters, cluster)
		}
	}
	delete(c.asking, asked)
	delete(c.vain, asked)
	notify := slices.Clone(c.notify)
	c.mu.Unlock()
	if known && before == allowed {
		return
	}
	tell(notify, clusters)
}

// inVain notes that there was no answer, and lets the clusters say so when that lasts and there is no former answer.
func (c *Checker) inVain(asked question, clusters []types.NamespacedName) {
	c.mu.Lock()
	c.vain[asked]++
	_, known := c.answers[asked]
	told := !known && c.vain[asked] == tellAfter
	notify := slices.Clone(c.notify)
	c.mu.Unlock()
	if told {
		tell(notify, clusters)
	}
}

func tell(notify []func(cluster types.NamespacedName), clusters []types.NamespacedName) {
	for _, cluster := range clusters {
		for _, f := range notify {
			f(cluster)
		}
	}
}
