package charts

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"
	appsv1 "k8s.io/api/apps/v1"
)

// proxyOf returns the server's decision which requests go through the proxy, in a cluster whose API server has a
// Service's address.
func proxyOf(t *testing.T, values map[string]any, apiServer string) func(*url.URL) (*url.URL, error) {
	t.Helper()
	objects, err := Objects(droverChart, Release{}, values)
	check(t, err)
	environment := map[string]string{}
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			var deployment appsv1.Deployment
			into(t, object, &deployment)
			for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
				// Like the kubelet, which always sets the variables of this Service, whatever the value of
				// enableServiceLinks.
				environment[variable.Name] = strings.ReplaceAll(variable.Value, "$(KUBERNETES_SERVICE_HOST)", apiServer)
			}
		}
	}
	config := httpproxy.Config{HTTPProxy: environment["HTTP_PROXY"], HTTPSProxy: environment["HTTPS_PROXY"],
		NoProxy: environment["NO_PROXY"]}
	return config.ProxyFunc()
}

// TestDrover_Proxy: requests to the cluster bypass the proxy, whatever its networks are. Requests to other addresses
// use it.
func TestDrover_Proxy(t *testing.T) {
	odd := "203.0.113.1"
	for name, tc := range map[string]struct {
		server, proxy map[string]any
		apiServer     string
		direct, by    []string
	}{
		"default values": {
			apiServer: "10.43.0.1",
			direct: []string{
				"10.43.0.1", "172.20.0.1", "192.168.7.1", "100.64.0.1", "100.127.255.254", "[::1]:8081",
				"[fd00:10:96::1]:443", "[fdff::1]",
				"drover-admission.drover-system.svc", "a.b.svc.cluster.local",
			},
			by: []string{"releases.example.com", "100.128.0.1", "198.51.100.7", "[2001:db8::1]", odd},
		},
		"a service network": {apiServer: odd, direct: []string{odd},
			by: []string{"203.0.113.2", "releases.example.com"}},
		"an IPv6 service network": {
			apiServer: "2001:db8:43::1", direct: []string{"[2001:db8:43::1]:443"}, by: []string{"[2001:db8:43::2]:443"},
		},
		"other networks": {
			proxy: map[string]any{"noProxy": ".example.com"}, apiServer: odd,
			direct: []string{odd, "releases.example.com"}, by: []string{"10.43.0.1"},
		},
		"no networks": {proxy: map[string]any{"noProxy": ""}, apiServer: odd, direct: []string{odd},
			by: []string{"10.43.0.1"}},
		"another management cluster, whose API server the kubeconfig names": {
			server: map[string]any{"kubeconfig": map[string]any{"secretName": "other"}}, apiServer: odd,
			direct: []string{"10.43.0.1"}, by: []string{odd},
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := valuesOf(t, "minimal")
			merge(values,
				map[string]any{"server": tc.server, "proxy": map[string]any{"https": "http://proxy.example.com:3128"}})
			merge(values, map[string]any{"proxy": tc.proxy})
			choose := proxyOf(t, values, tc.apiServer)
			expect := func(hosts []string, proxied bool) {
				for _, host := range hosts {
					got, err := choose(&url.URL{Scheme: "https", Host: host})
					check(t, err)
					if (got != nil) != proxied {
						t.Errorf("%s: proxy %v", host, got)
					}
				}
			}
			expect(tc.direct, false)
			expect(tc.by, true)
		})
	}
}
