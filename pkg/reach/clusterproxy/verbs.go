package clusterproxy

import "slices"

// otherVerb stands for what no API server knows.
const otherVerb = "other"

// verbs are those of Kubernetes and the methods of HTTP, in lower case, that it gives what is no resource. Clients can send any, and metrics have a label.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post", "put", "head", "options",
}

func verbLabel(verb string) string {
	if slices.Contains(verbs, verb) {
		return verb
	}
	return otherVerb
}
