package backup

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// grantedBefore warns about clusters that use Secrets of other namespaces. Such use depends on the permissions of the
// user that named the Secrets, and a backup does not contain permissions.
func grantedBefore(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() != provisioningKind {
			continue
		}
		var grants []tenancy.Grant
		if json.Unmarshal([]byte(object.GetAnnotations()[tenancy.GrantsAnnotation]), &grants) != nil || len(grants) == 0 {
			continue // the annotation is empty, or requests grants
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
