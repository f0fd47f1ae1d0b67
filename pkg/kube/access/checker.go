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
	// Unknown is the verdict until the API server answers. Its answer wakes the cluster.
	Unknown Verdict = iota
	// Allowed permits the use.
	Allowed
	// Denied forbids the use.
	Denied
)

const (
	defaultRefresh = time.Minute
	retryAfter     = 5 * time.Second
	// tellAfter is the number of failed attempts after which waiting clusters report that there is no answer.
	tellAfter = 3
	// atOnce is how many questions the API server is asked at the same time.
	atOnce = 4
)

// ClusterCache reads Clusters from memory.
type ClusterCache interface {
	List(namespace string, selector labels.Selector) ([]*provv1.Cluster, error)
}

// Options configure a Checker.
type Options struct {
	// Key signs grants.
	Key      []byte
	Clusters ClusterCache
	Review   Reviewer
	// Refresh is how often the API server is asked again; one minute when it is zero. A withdrawn right stays usable
	// for at most that long.
	Refresh time.Duration
	Log     logrus.FieldLogger
}

// Checker knows which Clusters may use which Secrets of other namespaces. It is safe for concurrent use.
type Checker struct {
	Options

	mu      sync.Mutex
	notify  []func(cluster types.NamespacedName)
	answers map[question]bool
	// asking are the unanswered questions, with the clusters that wait for the answer.
	asking map[question]map[types.NamespacedName]bool
	// vain counts the failed attempts of each unanswered question.
	vain map[question]int
	wake chan struct{}
}

// question is whether an author, as JSON, may get a Secret.
type question struct {
	author string
	secret types.NamespacedName
}

// New returns a Checker. It asks questions while Run runs.
func New(o Options) *Checker {
	if o.Refresh == 0 {
		o.Refresh = defaultRefresh
	}
	if o.Log == nil {
		o.Log = logrus.StandardLogger()
	}
	return &Checker{
		Options: o, answers: map[question]bool{}, asking: map[question]map[types.NamespacedName]bool{},
		vain: map[question]int{},
		wake: make(chan struct{}, 1),
	}
}

// OnChange calls f with every Cluster that has a new or changed answer.
func (c *Checker) OnChange(f func(cluster types.NamespacedName)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify = append(c.notify, f)
}

// Check returns whether a Cluster may use a Secret, and why not. For Unknown the text explains a lasting failure. A
// Cluster may always use Secrets of its own namespace. annotations are those of the Secret, nil if it does not exist. A
// Cluster without the right gets the same answer whether the Secret exists or not. Check does not block.
func (c *Checker) Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (Verdict,
	string) {
	own := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if secret.Namespace == own.Namespace || tenancy.Offered(annotations, own) {
		return Allowed, ""
	}
	author, granted := tenancy.Grants(cluster, c.Key)[secret]
	if !granted {
		return Denied, "Secret " + secret.String() + " is in another namespace, and no user who may get it has " +
			"granted it to the Cluster: " + remedy(cluster, secret)
	}
	asked := questionOf(author, secret)
	c.mu.Lock()
	defer c.mu.Unlock()
	allowed, known := c.answers[asked]
	switch {
	case !known:
		c.ask(asked, own)
		if c.vain[asked] >= tellAfter {
			return Unknown, "Secret " + secret.String() + " is in another namespace, and Drover cannot check whether " +
				"the user who granted it may get it: " +
				"the API server does not answer Drover's SubjectAccessReviews. Drover's log has the error, and " +
				"Drover tries again"
		}
		return Unknown, ""
	case !allowed:
		return Denied, "Secret " + secret.String() + " is in another namespace, and the user who granted it may no " +
			"longer get it: " + remedy(cluster, secret)
	}
	return Allowed, ""
}

// remedy returns how a Cluster gets access to a Secret without a change of its spec. A reference that the Cluster no
// longer contains, such as one from an old snapshot, cannot be granted.
func remedy(cluster *provv1.Cluster, secret types.NamespacedName) string {
	offer := "list " + cluster.Namespace + "/" + cluster.Name + " in annotation " + rkev1.AuthorizedObjectAnnotation +
		" of the Secret"
	if !slices.ContainsFunc(tenancy.References(cluster), func(r tenancy.Reference) bool {
		return r.NamespacedName == secret
	}) {
		return offer
	}
	return "let a user who may get the Secret set " +
		"annotation " + tenancy.GrantsAnnotation + " of the Cluster to " + tenancy.Renew + ", or " + offer
}

// ask records a question. The caller holds the lock.
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

// open returns the unanswered questions.
func (c *Checker) open() map[question]map[types.NamespacedName]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.asking)
}

// standing returns the questions about all existing references, and forgets the others.
func (c *Checker) standing() map[question]map[types.NamespacedName]bool {
	clusters, err := c.Clusters.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		c.Log.WithError(err).Error("Cannot list clusters to check their access to Secrets")
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

// review asks the questions, and wakes the clusters whose answer changed. A failure keeps the old answer, or keeps the
// question open.
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
			c.Log.WithError(err).Warn("Cannot check the access to a Secret; trying again")
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

// inVain counts a failure. It wakes the clusters if failures last and there is no former answer.
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
