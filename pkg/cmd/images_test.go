package cmd

import (
	"strings"
	"testing"
)

func TestImages_AsTextAndJSON(t *testing.T) {
	api := management(t)
	code, out, _ := look(t, api, "images", "--kubernetes-version", "v1.36.2+k3s1", "--system-default-registry",
		"r.example.com", "--server-image", "r.example.com/drover-io/drover:v1", "--arch", "amd64")
	if code != 0 || !strings.Contains(out, "image  r.example.com/rancher/system-agent-installer-k3s:v1.36.2-k3s1  ") ||
		!strings.Contains(out, "/k3s-images.txt") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out, _ := look(t, api, "images", "-o", "json"); code != 0 ||
		!strings.Contains(out, `"name": "drover-io/drover:dev"`) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, _, said := look(t, api, "images", "--kubernetes-version", "1.36"); code != 1 ||
		!strings.Contains(said, "for example v1.36.2+rke2r1") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
