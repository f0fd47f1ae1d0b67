package scaling

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestNarrow(t *testing.T) {
	t.Parallel()
	const api, prefix = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/", "/k8s/clusters/local"
	const selector = "labelSelector=cluster.x-k8s.io%2Fcluster-name%3Ddemo"
	for name, c := range map[string]struct {
		method, path string
		want         string // "" if it is refused
	}{
		"discovery":           {"GET", "/apis", "/apis?"},
		"legacy discovery":    {"GET", "/api", "/api?"},
		"resources":           {"GET", "/apis/cluster.x-k8s.io/v1beta2", "/apis/cluster.x-k8s.io/v1beta2?"},
		"resources of others": {"GET", "/apis/rke-machine.cattle.io/v1", ""},
		"list":                {"GET", api + "machines?limit=500", api + "machines?" + selector + "&limit=500"},
		"watch": {"GET", api + "machinesets?watch=true&allowWatchBookmarks=true",
			api + "machinesets?allowWatchBookmarks=true&" + selector + "&watch=true"},
		"list with an own selector": {"GET", api + "machines?labelSelector=a", ""},
		"parameter twice":           {"GET", api + "machines?limit=1&limit=2", ""},
		"all namespaces":            {"GET", "/apis/cluster.x-k8s.io/v1beta2/machines", ""},
		"another namespace":         {"GET", "/apis/cluster.x-k8s.io/v1beta2/namespaces/other/machines", ""},
		"other objects":             {"GET", api + "clusters", ""},
		"Secrets":                   {"GET", "/api/v1/namespaces/ns/secrets", ""},
		"delete all":                {"DELETE", api + "machines", ""},
		"create":                    {"POST", api + "machines", ""},
		"scale":                     {"PATCH", api + "machinedeployments/a/scale", api + "machinedeployments/a/scale?"},
		"size":                      {"GET", api + "machinedeployments/a/scale", api + "machinedeployments/a/scale?"},
		"status":                    {"PUT", api + "machines/a/status", ""},
		"mark":                      {"PUT", api + "machines/a", api + "machines/a?"},
		"patch":                     {"PATCH", api + "machines/a", ""},
		"delete":                    {"DELETE", api + "machines/a", ""},
		"change of a deployment":    {"PUT", api + "machinedeployments/a", ""},
		"dry run":                   {"PUT", api + "machines/a?dryRun=All", ""},
		"path with dots":            {"GET", api + "machines/..", ""},
		"empty part":                {"GET", api + "machines/", ""},
		"escaped slash":             {"GET", api + "machines%2fa", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := narrow(httptest.NewRequest(c.method, prefix+c.path, nil), "ns", "demo")
			if text := got.path + "?" + got.query.Encode(); err == nil && text != c.want ||
				(err != nil) != (c.want == "") {
				t.Errorf("forwarded as %s (%v), want %s", text, err, c.want)
			}
		})
	}
	upgrade := httptest.NewRequest(http.MethodGet, prefix+"/apis", nil)
	upgrade.Header.Set("Upgrade", "websocket")
	if _, err := narrow(upgrade, "ns", "demo"); err == nil {
		t.Error("an upgrade is forwarded")
	}
}
