package clusteragent

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

func TestOptions_Refused(t *testing.T) {
	checksum := strings.Repeat("0123456789abcdef", 4)
	for name, test := range map[string]struct {
		change func(*Options)
		want   string // the field that the error names; empty for none
	}{
		"only required options": {func(*Options) {}, ""},
		"IPv6, and a path": {func(o *Options) {
			o.ServerURL, o.APIServer = "https://[fd00::1]:8443/path", "https://[fd00::2]"
		}, ""},
		"a checksum":                    {func(o *Options) { o.CAChecksum = checksum }, ""},
		"a checksum in capital letters": {func(o *Options) { o.CAChecksum = strings.ToUpper(checksum) }, ""},
		"no address of the server":      {func(o *Options) { o.ServerURL = "" }, "ServerURL"},
		"the server without TLS": {func(o *Options) { o.ServerURL = "http://drover.example.com" },
			"ServerURL"},
		"the server without a scheme": {func(o *Options) { o.ServerURL = "drover.example.com" }, "ServerURL"},
		"the server as host and port": {func(o *Options) { o.ServerURL = "drover.example.com:443" }, "ServerURL"},
		"the server without a host":   {func(o *Options) { o.ServerURL = "https:///path" }, "ServerURL"},
		"the server with only a port": {func(o *Options) { o.ServerURL = "https://:443" }, "ServerURL"},
		"a password in the address": {func(o *Options) {
			o.ServerURL = "https://user:token-of@drover.example.com"
		}, "ServerURL"},
		"a line break in the address": {func(o *Options) { o.ServerURL = "https://drover.example.com\n" },
			"ServerURL"},
		"no address of the API server": {func(o *Options) { o.APIServer = "" }, "APIServer"},
		"the API server without TLS":   {func(o *Options) { o.APIServer = "http://10.43.0.1" }, "APIServer"},
		"no file with the token":       {func(o *Options) { o.TokenFile = "" }, "TokenFile"},
		"a checksum that is too short": {func(o *Options) { o.CAChecksum = checksum[1:] }, "CAChecksum"},
		"a checksum that is too long":  {func(o *Options) { o.CAChecksum = checksum + "0" }, "CAChecksum"},
		"a checksum with its method": {func(o *Options) { o.CAChecksum = "sha256:" + checksum[7:] },
			"CAChecksum"},
		"a checksum with letters beyond f": {func(o *Options) { o.CAChecksum = "g" + checksum[1:] }, "CAChecksum"},
		"a heartbeat that is too short":    {func(o *Options) { o.Heartbeat = 1 }, "Heartbeat"},
		"a negative heartbeat":             {func(o *Options) { o.Heartbeat = -wire.Heartbeat }, "Heartbeat"},
		"a heartbeat that is too long":     {func(o *Options) { o.Heartbeat = 40 * wire.Heartbeat }, "Heartbeat"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{ServerURL: "https://drover.example.com", TokenFile: "token",
				APIServer: "https://10.43.0.1:443"}
			test.change(&o)
			err := o.complete()
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error is %v, want an error about field %s", err, test.want)
			}
			if strings.Contains(err.Error(), "token-of") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %q, want one line without secrets", err)
			}
		})
	}
}

func TestOptions_ReportAllProblems(t *testing.T) {
	err := (&Options{CAChecksum: "x", Heartbeat: 1}).complete()
	for _, field := range []string{"ServerURL", "APIServer", "TokenFile", "CAChecksum", "Heartbeat"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error is %v, want it to contain %s", err, field)
		}
	}
}

func TestOptions_DefaultsAreThoseOfAPod(t *testing.T) {
	o := Options{ServerURL: "https://drover.example.com", TokenFile: "token", APIServer: "https://10.43.0.1:443"}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.APIServerCAFile != accountCA || o.APIServerTokenFile != accountToken || o.Heartbeat != wire.Heartbeat {
		t.Errorf("completed to %+v", o)
	}
	if o.Log != logrus.FieldLogger(logrus.StandardLogger()) || o.HealthAddress != "" {
		t.Errorf("completed to %+v", o)
	}
	t.Setenv("NO_PROXY", "")
	if request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1", nil); err != nil ||
		o.Proxy == nil {
		t.Fatal("no proxy function", err)
	} else if address, err := o.Proxy(request); err != nil || address != nil {
		t.Errorf("the local address uses proxy %v, %v", address, err)
	}
}

func TestInCluster(t *testing.T) {
	for name, test := range map[string]struct{ host, port, want string }{
		"IPv4":          {"10.43.0.1", "443", "https://10.43.0.1:443"},
		"IPv6":          {"fd00:10:43::1", "443", "https://[fd00:10:43::1]:443"},
		"a name":        {"kubernetes.default.svc", "6443", "https://kubernetes.default.svc:6443"},
		"outside":       {"", "", ""},
		"only the host": {"10.43.0.1", "", ""},
		"only the port": {"", "443", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := InCluster(test.host, test.port)
			if got != test.want {
				t.Errorf("InCluster(%q, %q) = %q, want %q", test.host, test.port, got, test.want)
			}
			if got != "" && checkURL(got) != nil {
				t.Errorf("%q is refused as the address of an API server", got)
			}
		})
	}
}
