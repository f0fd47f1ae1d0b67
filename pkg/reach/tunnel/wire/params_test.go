package wire

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const secret = "eyJhbGciOi.of-the.agent"

// certificate has only the form of a certificate, which is all that is checked.
var certificate = strings.TrimSpace(
	string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("a certificate")})))

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// announce encodes an agent's header with three JSON values.
func announce(address, token, ca string) string {
	return inBase64(fmt.Sprintf(`{"cluster":{"address":%q,"token":%q,"caCert":%q}}`, address, token, ca))
}

func encode(p Params) string {
	return announce(p.Address, p.Token, base64.StdEncoding.EncodeToString(p.CA))
}

func TestParseParams_AcceptsStockAgents(t *testing.T) {
	plain := inBase64(certificate)
	for name, test := range map[string]struct {
		header, address string
	}{
		"service address of IPv4": {announce("10.43.0.1:443", secret, plain), "10.43.0.1:443"},
		"service address of IPv6, as the environment has": {announce("fd00:10:43::1:443", secret, plain),
			"[fd00:10:43::1]:443"},
		"IPv6 in brackets":                {announce("[fd00::1]:6443", secret, plain), "[fd00::1]:6443"},
		"IPv6 in brackets without a port": {announce("[fd00::1]", secret, plain), "[fd00::1]:443"},
		"IPv6 that ends like a port":      {announce("fd00::1:6443", secret, plain), "[fd00::1]:6443"},
		"IPv6 in eight groups without a port": {announce("fd00:1:2:3:4:5:6:7", secret, plain),
			"[fd00:1:2:3:4:5:6:7]:443"},
		"name of a host": {announce("kubernetes.default.svc:443", secret, plain),
			"kubernetes.default.svc:443"},
		"name of a host without a port": {announce("api_1.example.com", secret, plain), "api_1.example.com:443"},
		"port with leading zeros":       {announce("10.43.0.1:0443", secret, plain), "10.43.0.1:443"},
		"newlines around the certificate": {announce("10.43.0.1:443", secret, inBase64("\n"+certificate+"\n\n")),
			"10.43.0.1:443"},
		"unknown fields": {
			inBase64(fmt.Sprintf(
				`{"node":null,"cluster":{"address":"10.43.0.1:443","token":%q,"caCert":%q,"more":[1]}}`, secret,
				plain)), "10.43.0.1:443",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseParams(test.header)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Params{Address: test.address, Token: secret, CA: []byte(certificate)},
				got); diff != "" {
				t.Errorf("params (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseParams_Refuses(t *testing.T) {
	plain := inBase64(certificate)
	key := inBase64(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("a key")})))
	for name, test := range map[string]struct {
		header string
		want   error  // an error of the wire
		text   string // or a part of the error text
	}{
		"no header":                       {"", ErrNoParams, ""},
		"a node is announced":             {inBase64(`{"node":{"customConfig":{}}}`), ErrNoParams, ""},
		"cluster is null":                 {inBase64(`{"cluster":null}`), ErrNoParams, ""},
		"JSON null":                       {inBase64(`null`), ErrNoParams, ""},
		"no address":                      {announce("", secret, plain), ErrNoAddress, ""},
		"no token":                        {announce("10.43.0.1:443", "", plain), ErrNoToken, ""},
		"no authorities":                  {announce("10.43.0.1:443", secret, ""), ErrNoCA, ""},
		"base64 for URLs":                 {"_-_-" + plain, nil, "standard base64"},
		"not base64":                      {"{" + secret + "}", nil, "standard base64"},
		"not JSON":                        {inBase64(secret), nil, "JSON object"},
		"JSON, but a list":                {inBase64(`["` + secret + `"]`), nil, "JSON object"},
		"JSON with a suffix":              {inBase64(`{"cluster":{}} ` + secret), nil, "JSON object"},
		"address is a number":             {inBase64(`{"cluster":{"address":443}}`), nil, "JSON object"},
		"longer than the limit":           {strings.Repeat("A", maxParams+1), nil, "longer than"},
		"port 0":                          {announce("10.43.0.1:0", secret, plain), nil, "HOST:PORT"},
		"port above 65535":                {announce("10.43.0.1:65536", secret, plain), nil, "HOST:PORT"},
		"port with a sign":                {announce("10.43.0.1:+443", secret, plain), nil, "HOST:PORT"},
		"port by name":                    {announce("10.43.0.1:https", secret, plain), nil, "HOST:PORT"},
		"only a port":                     {announce(":443", secret, plain), nil, "HOST:PORT"},
		"only a colon":                    {announce(":", secret, plain), nil, "HOST:PORT"},
		"two ports":                       {announce("10.43.0.1:443:443", secret, plain), nil, "HOST:PORT"},
		"every address of IPv4":           {announce("0.0.0.0:443", secret, plain), nil, "HOST:PORT"},
		"every address of IPv6":           {announce("[::]:443", secret, plain), nil, "HOST:PORT"},
		"IPv6 with a zone":                {announce("[fe80::1%eth0]:443", secret, plain), nil, "HOST:PORT"},
		"IPv6 with a hostile zone":        {announce("fe80::1%/../:443", secret, plain), nil, "HOST:PORT"},
		"brackets that do not close":      {announce("[fd00::1:443", secret, plain), nil, "HOST:PORT"},
		"a URL":                           {announce("https://10.43.0.1:443", secret, plain), nil, "HOST:PORT"},
		"a path after the port":           {announce("10.43.0.1:443/api", secret, plain), nil, "HOST:PORT"},
		"a user before the host":          {announce("root@10.43.0.1:443", secret, plain), nil, "HOST:PORT"},
		"another protocol of the tunnel":  {announce("unix//var/run/docker.sock:443", secret, plain), nil, "HOST:PORT"},
		"a line break in the host":        {announce("a\r\nb:443", secret, plain), nil, "HOST:PORT"},
		"a null byte in the host":         {announce("a\x00b:443", secret, plain), nil, "JSON object"},
		"a host that looks like a flag":   {announce("-oProxyCommand:443", secret, plain), nil, "HOST:PORT"},
		"a host that begins with a dot":   {announce(".example.com:443", secret, plain), nil, "HOST:PORT"},
		"a host that is too long for DNS": {announce(strings.Repeat("a", 254)+":443", secret, plain), nil, "HOST:PORT"},
		"a host with non-ASCII letters":   {announce("еxample.com:443", secret, plain), nil, "HOST:PORT"},
		"a line break in the token": {announce("10.43.0.1:443", secret+"\r\nImpersonate-User: root", plain), nil,
			"printable ASCII"},
		"a space in the token":           {announce("10.43.0.1:443", secret+" x", plain), nil, "printable ASCII"},
		"non-ASCII letters in the token": {announce("10.43.0.1:443", secret+"é", plain), nil, "printable ASCII"},
		"authorities are not base64":     {announce("10.43.0.1:443", secret, certificate), nil, "base64 of PEM"},
		"authorities are not PEM": {announce("10.43.0.1:443", secret, inBase64(secret)), nil,
			"with a certificate"},
		"authorities are a private key": {announce("10.43.0.1:443", secret, key), nil, "with a certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseParams(test.header)
			switch {
			case err == nil:
				t.Fatalf("accepted as %#v", got)
			case test.want != nil && !errors.Is(err, test.want):
				t.Errorf("error is %q, want %q", err, test.want)
			case !strings.Contains(err.Error(), test.text):
				t.Errorf("error is %q, want it to contain %q", err, test.text)
			}
			if diff := cmp.Diff(Params{}, got); diff != "" {
				t.Errorf("the error comes with a result:\n%s", diff)
			}
			for _, part := range []string{secret, inBase64(secret)} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("the error contains the input: %q", err)
				}
			}
		})
	}
}

func TestParseParams_ReadsWhatAgentsEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Params{
			Address: rapid.StringMatching(`([a-z0-9][a-z0-9.-]{0,40}|\[fd00::[1-9a-f]\]):[1-9][0-9]{0,3}`).Draw(t,
				"address"),
			Token: rapid.StringMatching(`[!-~]{1,200}`).Draw(t, "token"),
			CA:    []byte(certificate),
		}
		got, err := ParseParams(encode(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("params after a round trip (-want +got):\n%s", diff)
		}
	})
}

func TestParams_MaskSecrets(t *testing.T) {
	params := Params{Address: "10.43.0.1:443", Token: secret, CA: []byte(certificate)}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, printed := range []string{fmt.Sprintf(format, params), fmt.Sprintf(format, &params),
			fmt.Sprintf(format, []Params{params})} {
			if strings.Contains(printed, secret) || strings.Contains(printed, "CERTIFICATE") {
				t.Errorf("%s prints %q", format, printed)
			}
		}
	}
}

func TestParseHeartbeat(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  time.Duration // 0 if refused
	}{
		"the default of Drover's agent": {Heartbeat.String(), 1500 * time.Millisecond},
		"the shortest":                  {"50ms", 50 * time.Millisecond},
		"the longest":                   {"5s", 5 * time.Second},
		"two units":                     {"1s500ms", 1500 * time.Millisecond},
		"too short":                     {"49ms", 0},
		"too long":                      {"5.001s", 0},
		"zero":                          {"0", 0},
		"negative":                      {"-1.5s", 0},
		"no unit":                       {"15", 0},
		"nothing":                       {"", 0},
		"not a number":                  {"NaNs", 0},
		"above 64 bits":                 {"9999999999999h", 0},
		"a line break":                  {"1s\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHeartbeat(test.value)
			if got != test.want || (err == nil) != (test.want > 0) {
				t.Errorf("ParseHeartbeat(%q) = %s, %v, want %s", test.value, got, err, test.want)
			}
		})
	}
	if got, want := Silence(Heartbeat), 3750*time.Millisecond; got != want {
		t.Errorf("Silence(%s) = %s, want %s: two lost pings, and time for the third", Heartbeat, got, want)
	}
}

func FuzzParseParams(f *testing.F) {
	for _, address := range []string{"10.43.0.1:443", "fd00::1:443", "[fd00::1]", "a", ":"} {
		f.Add(announce(address, secret, inBase64(certificate)))
	}
	f.Add(inBase64(`{"cluster":null}`))
	f.Fuzz(func(t *testing.T, header string) {
		params, err := ParseParams(header)
		if err != nil {
			return
		}
		// Encoding and parsing again gives the same Params: the address that dial compares has a single form.
		same, err := ParseParams(encode(params))
		if err != nil {
			t.Fatalf("%q was accepted once, and the second time: %v", params.Address, err)
		}
		if diff := cmp.Diff(params, same); diff != "" {
			t.Errorf("params, parsed once (-) and twice (+):\n%s", diff)
		}
	})
}
