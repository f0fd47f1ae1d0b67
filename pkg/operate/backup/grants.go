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
		if json.Unmarshal([]byte(object.GetAnnotations()[tenancy.GrantsAnnotation]), &grants) != nil ||
			len(grants) == 0 {
			continue // the annotation is empty, or requests grants
		}
		users := make([]string, len(grants))
		for i, grant := range grants {
			users[i] = fmt.Sprintf("%s (%s)", grant.Secret, grant.Author.Username)
		}
		out = append(out,
			fmt.Sprintf(
				"%s: it uses Secrets of other namespaces with the permissions of users, which are not in a backup: "+
					"%s; give these users the permissions before the adoption of the cluster; otherwise the adopting "+
					"user takes their place", describe(object), strings.Join(users, ", ")))
	}
	return out
}
