package clusterproxy

import "slices"

// otherVerb is the label of unknown verbs.
const otherVerb = "other"

// verbs are the Kubernetes verbs, and the lower-case HTTP methods of non-resource requests. Clients can send any
// method, so this list bounds the metrics' label.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post", "put", "head",
	"options",
}

func verbLabel(verb string) string {
	if slices.Contains(verbs, verb) {
		return verb
	}
	return otherVerb
}
