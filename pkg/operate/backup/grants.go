package backup

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// grantedBefore warns of the clusters that may use Secrets of other namespaces for as long as who named these may get them: rights of users are in no
// backup.
func grantedBefore(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() != provisioningKind {
			continue
		}
		var grants []tenancy.Grant
		if json.Unmarshal([]byte(object.GetAnnotations()[tenancy.GrantsAnnotation]), &grants) != nil || len(grants) == 0 {
			continue // none, or a wish for some
		}
		users := make([]string, len(grants))
		for i, grant := range grants {
			users[i] = fmt.Sprintf("%s (%s)", grant.Secret, grant.Author.Username)
		}
		out = append(out, fmt.Sprintf("%s: it uses Secrets of other namespaces in the name of users whose rights are not in a backup: %s; "+
			"see that they may get them here before somebody adopts the cluster, who takes their place otherwise", describe(object), strings.Join(users, ", ")))
	}
	return out
}
