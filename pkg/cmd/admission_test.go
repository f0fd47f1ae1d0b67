package cmd

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/drover-io/drover/pkg/server"
)

func TestAdmission_ModeAndAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		mode, address string
		embedded      bool
		want, err     string
	}{
		"the embedded management plane": {address: "127.0.0.1:9443", embedded: true, want: "install"},
		"another program's":             {address: "127.0.0.1:9443", want: "off"},
		"the chart":                     {mode: "host", address: ":9443", want: "host"},
		"disabled":                      {mode: "off", address: "127.0.0.1:9443", embedded: true, want: "off"},
		"an unknown word": {mode: "on", address: "127.0.0.1:9443",
			err: `--admission: "on" is unknown; use install, host or off`},
		"no port": {mode: "host", address: "localhost", err: "--admission-address: "},
		"an unspecified address": {mode: "install", address: ":9443",
			err: "has no host that the API server can reach"},
		"another unspecified address": {mode: "install", address: "0.0.0.0:9443", err: "has no host"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &serverOptions{admission: tc.mode, admissionAddress: tc.address, embedded: tc.embedded}
			err := o.checkAdmission()
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if tc.err == "" && o.admission != tc.want {
				t.Errorf("mode %q, want %q", o.admission, tc.want)
			}
		})
	}
}

// The webhooks' certificate is valid for the Service's name and for an address, and the configured authority verifies
// it.
func TestAdmission_CertificateCoversEveryName(t *testing.T) {
	log, _ := test.NewNullLogger()
	o := &serverOptions{dataDir: t.TempDir(), embedded: true, admission: "install", admissionAddress: "192.0.2.7:9443"}
	var options server.Options
	config, err := o.admissionCertificate(t.Context(), nil, log, &options)
	check(t, err)
	shown, err := config.GetCertificate(&tls.ClientHelloInfo{})
	check(t, err)
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	check(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(options.Admission.CACerts)) {
		t.Fatal("the options have no authority")
	}
	for _, name := range []string{"drover-admission.drover-system.svc", "localhost", "127.0.0.1", "192.0.2.7"} {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if options.Admission.Mode != server.AdmissionInstall || options.Admission.URL != "https://192.0.2.7:9443" {
		t.Errorf("options %+v", options.Admission)
	}
	off := &serverOptions{admission: "off"}
	if config, err := off.admissionCertificate(t.Context(), nil, log, &options); config != nil || err != nil {
		t.Errorf("disabled: %v, %v", config, err)
	}
}
