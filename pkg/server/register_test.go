package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestNew_AdmissionHasToBeReachable(t *testing.T) {
	for name, tc := range map[string]struct {
		admission Admission
		want      string
	}{
		"a mode that is none": {Admission{Mode: "on"}, `Admission.Mode: "on" is unknown`},
		"no authority":        {Admission{Mode: AdmissionHost}, "Admission.CACerts: are required"},
		"no address":          {Admission{Mode: AdmissionInstall, CACerts: "pem"}, `Admission.URL: "" is not an address`},
		"an address with more": {
			Admission{Mode: AdmissionInstall, CACerts: "pem", URL: "https://127.0.0.1:9443/admission"}, "is not an address that the API server can reach",
		},
		"installed by somebody else": {Admission{Mode: AdmissionHost, CACerts: "pem"}, ""},
		"left to others":             {Admission{}, ""},
	} {
		o := Options{
			RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"}, InstanceID: "test", DataDir: t.TempDir(),
			Settings: Settings{ServerURL: "https://drover.example.com"}, Admission: tc.admission,
		}
		if _, err := o.complete(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// Every path that a host routes is answered, also before Start, and not on the address for machines.
func TestAdmissionHandler_AnswersItsPaths(t *testing.T) {
	s, err := New(options(t, newAPI(t)))
	check(t, err)
	for _, path := range AdmissionPaths() {
		if strings.HasSuffix(path, "/") {
			path += "word" // what begins with it is answered
		}
		w := httptest.NewRecorder()
		s.AdmissionHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, w.Code)
		}
		if status(s, path) == http.StatusOK || status(s, path) == http.StatusMethodNotAllowed {
			t.Errorf("machines get %d from %s", status(s, path), path)
		}
	}
}
