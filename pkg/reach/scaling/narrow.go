package scaling

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var group = clusterv1.GroupVersion.Group

// request is what is forwarded.
type request struct {
	path  string
	query url.Values
	// marks means that it updates a Machine. Then only the mark for deletion is forwarded.
	marks bool
	// scales is the MachineDeployment that it scales, or "". Then only the size is forwarded.
	scales string
}

var errNotAllowed = errors.New("autoscalers may not do this")

var (
	// discovery are the paths by which a client finds the group.
	discovery = []string{"/version", "/api", "/apis", "/apis/" + group}
	// listed are the resources that an autoscaler lists.
	listed = []string{"machinedeployments", "machinepools", "machines", "machinesets"}
	// watching are the query parameters of lists and watches, writing those of other requests.
	watching = []string{"watch", "allowWatchBookmarks", "sendInitialEvents", "resourceVersion", "resourceVersionMatch",
		"timeoutSeconds", "timeout", "limit", "continue"}
	writing = []string{"timeout", "fieldManager", "fieldValidation", "resourceVersion"}
)

// narrow returns the request that is forwarded for the autoscaler of a cluster. It must understand the request
// completely, and refuses all others.
func narrow(r *http.Request, namespace, cluster string) (request, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !isPlain(r) {
		return request{}, errNotAllowed
	}
	path := "/" + strings.TrimPrefix(r.URL.Path, Prefix)
	read := r.Method == http.MethodGet
	rest, isGroup := strings.CutPrefix(path, "/apis/"+group+"/")
	parts := strings.Split(rest, "/")
	to := request{path: path, query: query}
	allowed := false
	switch {
	case isDiscovery(path):
		allowed = read && knows(query, []string{"timeout"})
	case !isGroup || !isOf(namespace, parts):
	case len(parts) == 4:
		allowed = read && knows(query, watching)
		query.Set("labelSelector", clusterv1.ClusterNameLabel+"="+cluster)
	default:
		allowed = isObject(r.Method, parts[3:]) && knows(query, writing)
		to.marks, to.scales = writes(r.Method, parts[3:])
	}
	if !allowed {
		return request{}, errNotAllowed
	}
	return to, nil
}

// isPlain reports whether the path of a request has one spelling only, and the request keeps its protocol.
func isPlain(r *http.Request) bool {
	parts := strings.Split(r.URL.Path, "/")
	return !slices.Contains(parts, ".") && !slices.Contains(parts, "..") && r.URL.RawPath == "" &&
		r.URL.EscapedPath() == r.URL.Path && r.Header.Get("Upgrade") == "" && strings.HasPrefix(r.URL.Path, Prefix)
}

// isDiscovery reports whether a client finds the resources of the group by this path.
func isDiscovery(path string) bool {
	version, isGroup := strings.CutPrefix(path, "/apis/"+group+"/")
	return slices.Contains(discovery, path) || isGroup && version != "" && !strings.Contains(version, "/")
}

// isOf reports whether the parts of a path, after the group, are those of a listed resource in the namespace.
func isOf(namespace string, parts []string) bool {
	return len(parts) >= 4 && !slices.Contains(parts, "") && parts[1] == "namespaces" && parts[2] == namespace &&
		slices.Contains(listed, parts[3])
}

// isObject reports whether an autoscaler reads or changes one object in that way: RESOURCE/NAME or RESOURCE/NAME/scale.
// Its account decides which objects these are. An autoscaler updates Machines, and patches none.
func isObject(method string, parts []string) bool {
	read, write := method == http.MethodGet, method == http.MethodPut || method == http.MethodPatch
	switch {
	case len(parts) == 2:
		return read || method == http.MethodPut && parts[0] == "machines"
	case len(parts) == 3:
		return parts[0] == "machinedeployments" && parts[2] == "scale" && (read || write)
	}
	return false
}

// writes returns what an allowed request for one object changes.
func writes(method string, parts []string) (marks bool, scales string) {
	switch {
	case method == http.MethodGet:
	case len(parts) == 2:
		return true, ""
	case len(parts) == 3:
		return false, parts[1]
	}
	return false, ""
}

// knows reports whether a query has only these parameters, each once.
func knows(query url.Values, parameters []string) bool {
	for key, values := range query {
		if !slices.Contains(parameters, key) || len(values) != 1 {
			return false
		}
	}
	return true
}
