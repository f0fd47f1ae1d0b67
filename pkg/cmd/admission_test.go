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
		"a plane of our own":                {address: "127.0.0.1:9443", embedded: true, want: "install"},
		"somebody else's":                   {address: "127.0.0.1:9443", want: "off"},
		"the chart":                         {mode: "host", address: ":9443", want: "host"},
		"switched off":                      {mode: "off", address: "127.0.0.1:9443", embedded: true, want: "off"},
		"a word that is none":               {mode: "on", address: "127.0.0.1:9443", err: `--admission: "on" is unknown; use install, host or off`},
		"no port":                           {mode: "host", address: "localhost", err: "--admission-address: "},
		"an address that leads nowhere":     {mode: "install", address: ":9443", err: "names no host under which the API server can ask"},
		"another address that leads nobody": {mode: "install", address: "0.0.0.0:9443", err: "names no host"},
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
func TestAdmission_CertificateIsKnownUnderEveryName(t *testing.T) {
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
		t.Fatal("no authority was told")
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
		t.Errorf("switched off: %v, %v", config, err)
	}
}
