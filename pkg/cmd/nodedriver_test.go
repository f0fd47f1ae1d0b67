package cmd

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/driverjob"
)

// The commands of the Job write their result, or the reason of their failure, to the termination message.
func TestNodeDriver_ReportsInTheTerminationMessage(t *testing.T) {
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "-sim") {
			_, _ = w.Write([]byte("\x7fELF program"))
			return
		}
		http.NotFound(w, r)
	}))
	defer vendor.Close()
	directory := t.TempDir()
	result := filepath.Join(t.TempDir(), "result")
	for _, test := range []struct {
		name     string
		args     []string
		wantCode int
		want     string
	}{
		{"a missing file", []string{"download", "--url=" + vendor.URL + "/missing"}, 1, "answered 404"},
		{"a wrong checksum", []string{"download", "--url=" + vendor.URL + "/docker-machine-driver-sim",
			"--checksum=" + strings.Repeat("0", 64)}, 1, "spec.checksum: the driver's checksum is"},
		{"a driver", []string{"download", "--url=" + vendor.URL + "/docker-machine-driver-sim"}, 0, `"name":"sim"`},
		{"a program that does not run", []string{"flags"}, 1, "run the driver"},
	} {
		args := append([]string{"drover", "node-driver"}, test.args...)
		code := Main(t.Context(), append(args, "--directory="+directory, "--result-file="+result), nil)
		message, err := os.ReadFile(result)
		if code != test.wantCode || err != nil || !strings.Contains(string(message), test.want) {
			t.Errorf("%s: exit code %d and message %q, want %d and %q", test.name, code, message, test.wantCode,
				test.want)
		}
		if len(message) > driverjob.MaxMessage {
			t.Errorf("%s: the message has %d bytes", test.name, len(message))
		}
	}
}

// With --embedded, the image of the Job is this program, whichever registry the clusters use.
func TestOwnImages_MatchTheJobs(t *testing.T) {
	for _, registry := range []string{"", "registry.example.com"} {
		settings := controllers.Settings{ClusterAgentImage: "drover-io/drover:v1", SystemDefaultRegistry: registry}
		want := settings.Drivers(settings.ClusterAgentImage).Image
		for _, image := range ownImages("/bin/drover", settings) {
			if image.Match != want || image.Program != "/bin/drover" || image.User == 0 {
				t.Errorf("with registry %q, the image is %+v, want %s", registry, image, want)
			}
		}
	}
}
