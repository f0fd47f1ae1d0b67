package memkube

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discover answers requests that name no resource. It does not implement aggregated discovery, and clients fall back.
func (s *Server) discover(path string) (response, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/version":
		return answer(http.StatusOK, map[string]string{"major": "1", "minor": minor(s.version), "gitVersion": s.version,
			"platform": "linux/amd64"}), true
	case path == "/healthz", path == "/livez", path == "/readyz":
		return response{code: http.StatusOK, body: []byte("ok")}, true
	case path == "/": // Cluster API requests it to check whether a cluster is reachable
		return answer(http.StatusOK,
			metav1.RootPaths{Paths: []string{"/api", "/apis", "/healthz", "/livez", "/readyz", "/version"}}), true
	case path == "/api":
		return answer(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"}}), true
	case path == "/apis":
		return answer(http.StatusOK, s.groups()), true
	case parts[0] == "api" && len(parts) == 2:
		return s.resources(schema.GroupVersion{Version: parts[1]}), true
	case parts[0] == "apis" && len(parts) == 2:
		for _, group := range s.groups().Groups {
			if group.Name == parts[1] {
				return answer(http.StatusOK, group), true
			}
		}
		return failure(noSuchPath()), true
	case parts[0] == "apis" && len(parts) == 3:
		return s.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]}), true
	}
	return response{}, false
}

func minor(version string) string {
	if parts := strings.Split(version, "."); len(parts) > 1 {
		return parts[1]
	}
	return ""
}

func (s *Server) groups() metav1.APIGroupList {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := map[string][]string{}
	for gr, t := range s.tables {
		if gr.Group == "" {
			continue
		}
		for _, version := range t.versions {
			if !slices.Contains(versions[gr.Group], version) {
				versions[gr.Group] = append(versions[gr.Group], version)
			}
		}
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups: []metav1.APIGroup{}}
	for name, served := range versions {
		slices.SortFunc(served, preferred)
		group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: name}
		for _, version := range served {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version,
				Version: version})
		}
		group.PreferredVersion = group.Versions[0]
		list.Groups = append(list.Groups, group)
	}
	slices.SortFunc(list.Groups, func(a, b metav1.APIGroup) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// preferred orders stable versions before beta and alpha, and newer versions before older ones of the same stage.
func preferred(a, b string) int {
	stage := func(v string) int {
		switch {
		case strings.Contains(v, "alpha"):
			return 2
		case strings.Contains(v, "beta"):
			return 1
		}
		return 0
	}
	if c := cmp.Compare(stage(a), stage(b)); c != 0 {
		return c
	}
	return cmp.Compare(b, a)
}

func (s *Server) resources(gv schema.GroupVersion) response {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	for gr, t := range s.tables {
		if gr.Group != gv.Group || !t.serves(gv.Version) {
			continue
		}
		verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: gr.Resource, SingularName: strings.ToLower(t.kind), Kind: t.kind, Namespaced: t.namespaced,
			Verbs: verbs,
		})
		if t.status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: gr.Resource + "/status", Kind: t.kind, Namespaced: t.namespaced,
				Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return failure(noSuchPath())
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return answer(http.StatusOK, list)
}
