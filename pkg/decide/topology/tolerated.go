package topology

import (
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// ReasonSafeValue is the reason for a field that is rejected in new clusters and in edits. An older cluster with such a
// field gets a safe value in its place.
const ReasonSafeValue = "SafeValueUsed"

// safeValue marks errors of checks with a safe value: see Tolerated.
const safeValue = "drover.io/safe-value"

// Tolerated separates the errors that always stop the generation of objects from those that stop it only for a new
// cluster. New releases add checks, and they must not stop an existing cluster. Its snapshots, rotations and machines
// would have to wait for an edit. Desired uses a safe value for each tolerated error.
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

// Wrong is a cluster with its errors.
type Wrong struct {
	Cluster *provv1.Cluster
	Errors  field.ErrorList
}

// News separates the errors that an edit adds from older ones, even if their position in a list changed.
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

// identity identifies an error without its position in a list, because an update may remove an earlier entry. Pools
// have names. Numbers in the explanation do not count, because they change with the state of the cluster.
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

// anyRefused reports whether an error is not tolerated.
func anyRefused(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Origin != safeValue })
}
