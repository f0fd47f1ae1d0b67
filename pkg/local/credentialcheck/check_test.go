package credentialcheck

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
)

// otherServer is the code of a server that is no EC2.
const otherServer = "other"

// ec2 answers as EC2 does: with one error, or with regions.
func ec2(t *testing.T, status int, code string) map[string]string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "DescribeRegions" ||
			!strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKID/") {
			t.Errorf("asked %v with %s", r.Form, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		switch code {
		case "":
			_, _ = io.WriteString(w, `<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"/>`)
			return
		case otherServer:
			_, _ = io.WriteString(w, "<html>Welcome</html>")
			return
		}
		_, _ = fmt.Fprintf(w, "<Response><Errors><Error><Code>%s</Code><Message>hunter2</Message></Error></Errors>"+
			"</Response>", code)
	}))
	t.Cleanup(server.Close)
	return map[string]string{credentialjob.FieldAccessKey: "AKID", credentialjob.FieldSecretKey: "hunter2",
		credentialjob.FieldRegion:            "eu-central-1",
		credentialjob.FieldEndpoint:          strings.TrimPrefix(server.URL, "http://"),
		credentialjob.FieldInsecureTransport: "true"}
}

func TestCheck_AnswersOfEC2(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status     int
		code, want string
	}{
		"regions":                 {http.StatusOK, "", credentialjob.ReasonAccepted},
		"an unknown key":          {http.StatusUnauthorized, "AuthFailure", credentialjob.ReasonRejected},
		"a wrong secret":          {http.StatusForbidden, "SignatureDoesNotMatch", credentialjob.ReasonRejected},
		"an expired session":      {http.StatusBadRequest, "ExpiredToken", credentialjob.ReasonExpired},
		"a key that may not list": {http.StatusForbidden, "UnauthorizedOperation", credentialjob.ReasonAccepted},
		"another server":          {http.StatusOK, otherServer, credentialjob.ReasonUnchecked},
		"the clock is wrong":      {http.StatusBadRequest, "RequestExpired", credentialjob.ReasonUnchecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Check(t.Context(), credentialjob.Question{Driver: credentialjob.Amazon,
				Fields: ec2(t, tc.status, tc.code)})
			if shown, err := credentialjob.DecodeResult(got.Encode()); err != nil || shown != got {
				t.Errorf("result %+v is shown as %+v, %v", got, shown, err)
			}
			if got.Reason != tc.want || strings.Contains(got.Message, "hunter2") || got.Message == "" {
				t.Errorf("result %+v, want %s", got, tc.want)
			}
		})
	}
}

// TestUnderstood_ThrottlingIsNoAnswer: such a request is repeated.
func TestUnderstood_ThrottlingIsNoAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors>" +
			"</Response>": "RequestLimitExceeded",
		"<html>": "503 Service Unavailable",
		"<Response><Errors><Error><Code>hunter2 hunter2</Code></Error></Errors></Response>": "not as EC2 does",
	} {
		result, err := understood("ec2.test", "503 Service Unavailable", []byte(answer))
		if _, again := errors.AsType[errNoAnswer](err); !again || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: result %+v, error %v", answer, result, err)
		}
	}
}

// The signature was computed with another program.
func TestRequest_IsSignedForItsRegion(t *testing.T) {
	t.Parallel()
	a := &amazon{fields: map[string]string{credentialjob.FieldAccessKey: "AKIDEXAMPLE",
		credentialjob.FieldSecretKey:    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		credentialjob.FieldRegion:       "cn-north-1",
		credentialjob.FieldSessionToken: "session"},
		now: func() time.Time { return time.Date(2026, 8, 30, 12, 36, 0, 0, time.UTC) }}
	request, err := a.request(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := request.URL.String(); got != "https://ec2.cn-north-1.amazonaws.com.cn/" {
		t.Errorf("address %s", got)
	}
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260830/cn-north-1/ec2/aws4_request, " +
		"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, " +
		"Signature=1d104014d08a7032e0ca310defc62aef1fec2d92c75e82f3a43edf6d82478708"
	if got := request.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRequest_RefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, fields := range []map[string]string{
		{credentialjob.FieldRegion: "evil.example.com/"}, {credentialjob.FieldEndpoint: "ftp://x"},
		{credentialjob.FieldEndpoint: "https://user:pass@x"}, {credentialjob.FieldEndpoint: "a b"},
	} {
		a := &amazon{fields: fields, now: time.Now}
		if request, err := a.request(t.Context()); err == nil {
			t.Errorf("%v: asks %s", fields, request.URL)
		}
	}
}

// A cloud with an endpoint of its own names its regions freely.
func TestRequest_OtherRegions(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]bool{"RegionOne": true, "nova": true, "a b": false, "x\r\ny": false} {
		a := &amazon{now: time.Now, fields: map[string]string{credentialjob.FieldEndpoint: "cloud.test",
			credentialjob.FieldRegion: where}}
		if _, err := a.request(t.Context()); (err == nil) != want {
			t.Errorf("region %q: %v", where, err)
		}
	}
}

// A port with a path would send requests to any path of a host.
func TestCheck_PortOfVSphereIsANumber(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"443/admin?", "https", "70000"} {
		v := &vsphere{fields: map[string]string{credentialjob.FieldVCenter: "vc.test",
			credentialjob.FieldVCenterPort: port}}
		if _, err := v.check(t.Context()); err == nil || !strings.Contains(err.Error(), "vcenterPort") {
			t.Errorf("port %q: %v", port, err)
		}
	}
}

// vCenter answers logins as vSphere does, and counts open sessions.
type vCenter struct {
	fault    string
	sessions int
}

func (v *vCenter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	answer := ""
	switch {
	case strings.Contains(string(text), "Logout"):
		if _, err := r.Cookie("vmware_soap_session"); err == nil {
			v.sessions--
		}
		answer = `<LogoutResponse xmlns="urn:vim25"/>`
	case v.fault == "" && strings.Contains(string(text), "<password>pa&amp;ss</password>") && r.URL.Path == "/sdk":
		v.sessions++
		http.SetCookie(w, &http.Cookie{Name: "vmware_soap_session", Value: "s"})
		answer = `<LoginResponse xmlns="urn:vim25"><returnval><key>k</key></returnval></LoginResponse>`
	default:
		w.WriteHeader(http.StatusInternalServerError)
		answer = `<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>pa&amp;ss</faultstring><detail>` +
			`<InvalidLoginFault xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="` +
			v.fault + `"/></detail></soapenv:Fault>`
	}
	_, _ = io.WriteString(w, `<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/`+
		`envelope/"><soapenv:Body>`+answer+`</soapenv:Body></soapenv:Envelope>`)
}

func TestCheck_AnswersOfVSphere(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"": credentialjob.ReasonAccepted, "InvalidLogin": credentialjob.ReasonRejected,
		"vim25:PasswordExpired": credentialjob.ReasonExpired,
	} {
		v := &vCenter{fault: fault}
		server := httptest.NewTLSServer(v)
		t.Cleanup(server.Close)
		at, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got := Check(t.Context(), credentialjob.Question{Driver: credentialjob.VSphere, Fields: map[string]string{
			credentialjob.FieldVCenter: at.Hostname(), credentialjob.FieldVCenterPort: at.Port(),
			credentialjob.FieldUsername: "user", credentialjob.FieldPassword: "pa&ss"}})
		if shown, err := credentialjob.DecodeResult(got.Encode()); err != nil || shown != got {
			t.Errorf("result %+v is shown as %+v, %v", got, shown, err)
		}
		if got.Reason != want || strings.Contains(got.Message, "pa&ss") || v.sessions != 0 {
			t.Errorf("%q: result %+v with %d sessions left, want %s", fault, got, v.sessions, want)
		}
	}
}

func TestCheck_RepeatsAndGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got := Check(t.Context(), credentialjob.Question{Driver: credentialjob.Amazon, Fields: map[string]string{
			credentialjob.FieldEndpoint: "127.0.0.1:1", credentialjob.FieldInsecureTransport: "true"}})
		if waited := time.Since(began); got.Reason != credentialjob.ReasonUnchecked || waited != (attempts-1)*pause {
			t.Errorf("result %+v after %s", got, waited)
		}
	})
}
