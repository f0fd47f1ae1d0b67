package tenancy_test

import (
	"fmt"
	"strings"
	"testing"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/testkit/allocations"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// perByte is the memory that reading grants may allocate per byte of the annotation: an empty grant has three bytes of
// text, and its signature is computed.
const perByte = 512

// FuzzGrants: for any text in the annotation, only signed grants of the cluster count, and the memory is bounded by the
// length of the text.
func FuzzGrants(f *testing.F) {
	signed, err := tenancy.WriteGrants(nil, naming(), alice, tenancy.References(naming()), key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Add(signed[:len(signed)-2])
	f.Add(strings.Replace(signed, "alice", "admin", 1))
	f.Add("[" + strings.Repeat("{},", 1000) + "{}]")
	f.Add("[" + strings.Repeat(`{"secret":"cattle-global-data/cc"},`, 1000) + "{}]")
	f.Add(strings.Repeat("[", 1000))
	f.Fuzz(func(t *testing.T, text string) {
		cluster := naming(annotated(text))
		var granted int
		allocations.AtMost(t, 1<<20+perByte*uint64(len(text)), func() {
			granted = 0
			for _, author := range tenancy.Grants(cluster, key) {
				if author.Username != "alice" {
					t.Errorf("%q grants %+v", text, author)
				}
				granted++
			}
		})
		if granted > 4 || granted > 0 && !strings.Contains(text, "signature") {
			t.Errorf("%q has %d grants", text, granted)
		}
	})
}

func annotated(text string) func(*provv1.Cluster) {
	return func(c *provv1.Cluster) { c.Annotations = map[string]string{tenancy.GrantsAnnotation: text} }
}

// Many references and many grants of one Cluster cost their sum, not their product.
func TestGrants_CostTheirNumber(t *testing.T) {
	const many = 1000
	const long = "a-name-that-does-not-fit-into-the-memory-of-a-call"
	cluster := naming()
	text := strings.Builder{}
	for i := range many {
		pool := build.Pool(fmt.Sprintf("p%d", i), "w", 1)
		pool.CloudCredentialSecretName = fmt.Sprintf("cattle-global-data:%s-%d", long, i)
		cluster.Spec.RKEConfig.MachinePools = append(cluster.Spec.RKEConfig.MachinePools, pool)
		fmt.Fprintf(&text, `{"secret":"cattle-global-data/%s-x%d"},`, long, i)
	}
	annotated("[" + text.String() + "{}]")(cluster)
	allocations.AtMost(t, 4<<20, func() { tenancy.Grants(cluster, key) })
}
