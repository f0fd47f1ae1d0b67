package fakeagent

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// TestAgentOf checks that agentOf reads the manifest that Drover writes.
func TestAgentOf(t *testing.T) {
	t.Parallel()
	checksum := strings.Repeat("ab", 32)
	source := clustermanifest.Source{ServerURL: "https://drover.example.com", CAChecksum: checksum,
		Image: "drover-io/drover:v1"}
	secret, err := clustermanifest.Install(source, clustermanifest.Facts{
		Cluster:    build.Cluster("demo"),
		Management: &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-12345678"}}, Token: "hunter2",
	})
	if err != nil {
		t.Fatal(err)
	}
	files := []plan.File{
		{Path: "/var/lib/rancher/rke2/server/manifests/rancher/addons.yaml"},
		{Path: "/var/lib/rancher/rke2/server/manifests/rancher/cluster-agent.yaml",
			Content: base64.StdEncoding.EncodeToString(secret.Data["manifest"])},
	}
	got, err := agentOf(plan.NodePlan{Files: files})
	if want := (installed{"https://drover.example.com", checksum, "hunter2"}); got != want || err != nil {
		t.Errorf("got %+v, error %v", got, err)
	}
	if got, err := agentOf(plan.NodePlan{Files: files[:1]}); got != (installed{}) || err != nil {
		t.Errorf("a plan without an agent: got %+v, error %v", got, err)
	}
}

// TestRoad checks that a connection to a name that does not resolve goes to the address that Dial chooses.
func TestRoad(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, r.Host)
	}))
	t.Cleanup(server.Close)
	asked := ""
	road, err := newRoad(func(ctx context.Context, address string) (net.Conn, error) {
		asked = address
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); road.run(ctx) }()
	client := server.Client()
	client.Transport.(*http.Transport).Proxy = road.proxy
	response, err := client.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if string(answer) != "example.com" || asked != "example.com:443" || err != nil {
		t.Errorf("answer %q, requested %q, error %v", answer, asked, err)
	}
	response.Body.Close()
	cancel()
	<-ended
}
