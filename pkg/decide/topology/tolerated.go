package topology

import (
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// ReasonSafeValue is that of a field which is refused in new clusters and in edits,
// and in whose place a cluster that was there before gets a safe value.
const ReasonSafeValue = "SafeValueUsed"

// safeValue marks errors of checks that have a safe value: see Tolerated.
const safeValue = "drover.io/safe-value"

// Tolerated separates what keeps objects of a cluster from being made from what
// does so only while there are none. Checks are added from release to release, and
// a cluster that was made before must not come to a standstill because of them:
// its snapshots, rotations and machines would have to wait for an edit. Desired
// uses a safe value for each of those.
func Tolerated(errs field.ErrorList) (refused, tolerated field.ErrorList) {
	for _, err := range errs {
		if err.Origin == safeValue {
			tolerated = append(tolerated, err)
		} else {
			refused = append(refused, err)
		}
	}
	return refused, tolerated
}

// Wrong is a cluster with what is wrong with it.
type Wrong struct {
	Cluster *provv1.Cluster
	Errors  field.ErrorList
}

// News separates what an edit makes wrong from what was wrong before, wherever in
// its list it stood.
func News(before, after Wrong) (news, old field.ErrorList) {
	known := map[string]int{}
	for _, err := range before.Errors {
		known[identity(before.Cluster, err)]++
	}
	for _, err := range after.Errors {
		if id := identity(after.Cluster, err); known[id] > 0 {
			known[id]--
			old = append(old, err)
		} else {
			news = append(news, err)
		}
	}
	return news, old
}

var (
	inPool  = regexp.MustCompile(`^spec\.rkeConfig\.machinePools\[(\d+)\]`)
	indexes = regexp.MustCompile(`\[\d+\]`)
	numbers = regexp.MustCompile(`\d+`)
)

// identity is what is wrong, wherever in its list it stands: an update may take out
// what stands before it. Pools have names. Numbers in the explanation do not
// count: they change with what goes on in the cluster.
func identity(cluster *provv1.Cluster, err *field.Error) string {
	at := err.Field
	if found := inPool.FindStringSubmatch(at); found != nil {
		if i, e := strconv.Atoi(found[1]); e == nil && i < len(pools(cluster)) {
			at = "pool " + strconv.Quote(pools(cluster)[i].Name) + at[len(found[0]):]
		}
	}
	kind := *err
	kind.Detail = numbers.ReplaceAllString(err.Detail, "#")
	return indexes.ReplaceAllString(at, "[]") + ": " + kind.ErrorBody()
}

// anyRefused reports an error that is not tolerated.
func anyRefused(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Origin != safeValue })
}
