package clusterproxy

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// endpoints gives clusters authorized endpoints and returns what each of them trusts.
func (w *world) endpoints(ids ...string) map[string]*endpointtoken.Trust {
	w.t.Helper()
	trusts, all := map[string]*endpointtoken.Trust{}, map[string]endpointtoken.Endpoint{}
	for _, id := range ids {
		keys, err := endpointtoken.NewKeys(rand.Reader, time.Now())
		check(w.t, err)
		all[id] = endpointtoken.Endpoint{Keys: keys, Audience: endpointtoken.Audience(id, "uid")}
		content, err := keys.Trust(all[id].Audience)
		check(w.t, err)
		trusts[id], err = endpointtoken.ParseTrust(content)
		check(w.t, err)
	}
	w.options.Endpoint = func(id string) (endpointtoken.Endpoint, error) {
		if id == "c-m-young" {
			return endpointtoken.Endpoint{}, endpointtoken.ErrNotYet
		}
		if id == "c-m-spoiled" {
			return endpointtoken.Endpoint{}, fmt.Errorf("%w: delete the Secret", endpointtoken.ErrInvalidKeys)
		}
		if found, ok := all[id]; ok {
			return found, nil
		}
		return endpointtoken.Endpoint{},
			fmt.Errorf("%w: spec.localClusterAuthEndpoint.enabled of the Cluster is not true", endpointtoken.ErrOff)
	}
	return trusts
}

// post requests a token.
func post(t *testing.T, server *httptest.Server, id, token, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+EndpointTokensPrefix+id,
		strings.NewReader(body))
	check(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	answer, err := server.Client().Do(r)
	check(t, err)
	defer answer.Body.Close()
	var read json.RawMessage
	check(t, json.NewDecoder(answer.Body).Decode(&read))
	if control := answer.Header.Get("Cache-Control"); answer.StatusCode == http.StatusCreated && control != "no-store" {
		t.Errorf("an answer with a token may be cached: Cache-Control %q", control)
	}
	return answer.StatusCode, string(read)
}

// issued returns the token of an answer.
func issued(t *testing.T, code int, body string) authenticationv1.TokenRequestStatus {
	t.Helper()
	var request authenticationv1.TokenRequest
	if err := json.Unmarshal([]byte(body), &request); err != nil || code != http.StatusCreated ||
		request.Kind != "TokenRequest" {
		t.Fatalf("answered with %d: %s", code, body)
	}
	return request.Status
}

// Callers with access to the cluster get a token, and it contains their downstream identity.
func TestEndpointTokens_Identity(t *testing.T) {
	w := newWorld(t)
	id := w.cluster("demo", whoami("demo"))
	trust := w.endpoints(id)[id]
	token := w.user("system:serviceaccount:team:robot", "demo")
	w.users[token] = authenticationv1.UserInfo{
		Username: "system:serviceaccount:team:robot", UID: "u-1",
		Groups: []string{
			"developers", "system:masters", "system:nodes", "kubeadm:cluster-admins", "system:drover:cluster-admin",
			"system:serviceaccounts", "system:authenticated",
		},
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"p"},
			"example.com/a": {"b"}},
	}
	w.options.PassSystemGroups = true // for forwarded requests only; a token outlives this trust
	server := w.proxy()
	status := issued(t, http.StatusCreated, second(post(t, server, id, token, "")))
	got, err := trust.Verify(status.Token, time.Now())
	check(t, err)
	credential := got.Extra[endpointtoken.CredentialIDExtra]
	delete(got.Extra, endpointtoken.CredentialIDExtra)
	want := authenticationv1.UserInfo{
		Username: "system:drover:serviceaccount:team:robot", UID: "u-1",
		Groups: []string{"developers", "system:drover:serviceaccounts", "system:authenticated"},
		Extra:  map[string]authenticationv1.ExtraValue{"example.com/a": {"b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims of the token (-want +got):\n%s", diff)
	}
	if left := time.Until(status.ExpirationTimestamp.Time); left < 11*time.Hour || left > 12*time.Hour {
		t.Errorf("it is valid for %s", left)
	}
	record := w.ended(server, 1)[0]
	if record.User != "system:serviceaccount:team:robot" || record.Downstream != want.Username ||
		record.Cluster != id || record.Verb != "create" ||
		record.Status != http.StatusCreated || len(credential) != 1 || credential[0] != "JTI="+record.TokenID ||
		record.TokenID == "" {
		t.Errorf("credential %v, record %+v", credential, record)
	}
	if strings.Contains(fmt.Sprintf("%+v", record), status.Token) {
		t.Error("the token is in the record")
	}
}

func second(_ int, body string) string { return body }

func TestEndpointTokens_Life(t *testing.T) {
	w := newWorld(t)
	id := w.cluster("demo", nil)
	w.endpoints(id)
	w.options.EndpointTokenLife = time.Hour
	token, server := w.user("jane", "demo"), w.proxy()
	for asked, want := range map[string]time.Duration{
		``: time.Hour, `{}`: time.Hour, `{"spec":{"expirationSeconds":600}}`: 10 * time.Minute,
		`{"spec":{"expirationSeconds":999999}}`: time.Hour,
	} {
		code, body := post(t, server, id, token, asked)
		left := time.Until(issued(t, code, body).ExpirationTimestamp.Time)
		if left > want || left < want-time.Minute {
			t.Errorf("%s: valid for %s", asked, left)
		}
	}
	for _, life := range []time.Duration{time.Minute, 8 * 24 * time.Hour, -1} {
		w.options.EndpointTokenLife = life
		if _, err := New(w.options); err == nil || !strings.Contains(err.Error(), "EndpointTokenLife") {
			t.Errorf("%s: error %v", life, err)
		}
	}
}

func TestEndpointTokens_Refusals(t *testing.T) {
	w := newWorld(t)
	demo, other, off, young := w.cluster("demo", nil), w.cluster("other", nil), w.cluster("off", nil),
		w.cluster("young", nil)
	spoiled, log := w.cluster("spoiled", nil), &strings.Builder{}
	told := logrus.New()
	told.SetOutput(log)
	w.options.Log = told
	w.endpoints(demo, other)
	jane, stranger := w.user("jane", "demo", "off", "young", "spoiled"), w.user("stranger")
	w.rules["jane impersonate users /joe"] = true
	secret, machine, err := Issue("drover-system", Grant{
		Cluster: demo, Principal: naming.ProvisioningPrincipal("fleet-default", "demo"),
		Expires: time.Now().Add(time.Hour),
	}, rand.Reader)
	check(t, err)
	granted, user, err := Issue("drover-system",
		Grant{Cluster: demo, Principal: "user://jane", Expires: time.Now().Add(time.Hour)}, rand.Reader)
	check(t, err)
	w.secrets = append(w.secrets, secret, granted)
	server := w.proxy()
	code, body := post(t, server, demo, jane, "")
	made := issued(t, code, body).Token
	for name, c := range map[string]struct {
		id, token, body string
		headers         []string
		code            int
		want            string
	}{
		"nobody":                             {id: demo, code: 401, want: "Unauthorized"},
		"an unknown token":                   {id: demo, token: "hunter2", code: 401, want: "Unauthorized"},
		"a token for the endpoint":           {id: demo, token: made, code: 401, want: "Unauthorized"},
		"a user who may not get the Cluster": {id: demo, token: stranger, code: 403, want: "may not access cluster"},
		"a user who may get another Cluster": {id: other, token: jane, code: 403, want: "may not access cluster"},
		"a missing cluster": {id: "c-m-absent", token: jane, code: 403,
			want: "may not access cluster"},
		"the machine identity": {id: demo, token: machine, code: 403,
			want: "log in to the management cluster"},
		"Drover's token of a user": {id: demo, token: user, code: 403, want: "log in to the management cluster"},
		"another user, by impersonation": {id: demo, token: jane, headers: []string{"Impersonate-User: joe"}, code: 400,
			want: "impersonate in the cluster"},
		"a disabled endpoint": {id: off, token: jane, code: 409,
			want: "spec.localClusterAuthEndpoint.enabled"},
		"an endpoint without keys":      {id: young, token: jane, code: 503, want: "do not exist yet"},
		"an endpoint with invalid keys": {id: spoiled, token: jane, code: 503, want: "delete the Secret"},
		"a lifetime that is too short": {id: demo, token: jane, body: `{"spec":{"expirationSeconds":1}}`, code: 400,
			want: "at least 600"},
		"audiences": {id: demo, token: jane, body: `{"spec":{"audiences":["vault"]}}`, code: 400,
			want: "spec.audiences"},
		"another kind than TokenRequest": {id: demo, token: jane, body: `[]`, code: 400, want: "TokenRequest"},
		"a body that is too large": {id: demo, token: jane, body: strings.Repeat(" ", longestAsking+1), code: 400,
			want: "too large"},
		"an invalid name of a cluster": {id: "c-m-demo/more", token: jane, code: 404, want: "contains no cluster"},
		"an escaped name":              {id: "c%2dm-demo", token: jane, code: 404, want: "contains no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := post(t, server, c.id, c.token, c.body, c.headers...)
			if code != c.code || !strings.Contains(body, c.want) || strings.Contains(body, "eyJ") {
				t.Errorf("answered with %d: %s", code, body)
			}
		})
	}
	if log.Len() > 0 {
		t.Errorf("each of these requests is logged: %s", log)
	}
	if answer, _ := ask(t, server, http.MethodGet, EndpointTokensPrefix+demo,
		jane); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered with %d", answer.StatusCode)
	}
}

// A token for a cluster's endpoint is refused here without asking the management cluster.
func TestEndpointTokens_GiveNoAccessToDrover(t *testing.T) {
	w := newWorld(t)
	id := w.cluster("demo", whoami("demo"))
	w.endpoints(id)
	jane, server := w.user("jane", "demo"), w.proxy()
	code, body := post(t, server, id, jane, "")
	token := issued(t, code, body).Token
	w.users[token] = authenticationv1.UserInfo{Username: "jane"} // even if the management cluster accepts such tokens
	w.reviewed = nil
	if answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/"+id+"/version",
		token); answer.StatusCode != http.StatusUnauthorized || len(w.reviewed) > 0 {
		t.Errorf("answered with %d: %s; occurs %d times", answer.StatusCode, body, len(w.reviewed))
	}
}

// A client that requests a token and sends no body does not hold its slot forever.
func TestEndpointTokens_SlowBodiesTimeOut(t *testing.T) {
	w := newWorld(t)
	id := w.cluster("demo", whoami("demo"))
	w.endpoints(id)
	w.options.MaxInFlight, w.options.MaxInFlightPerCaller, w.options.RequestTimeout = 2, 2, 200*time.Millisecond
	jane, server := w.user("jane", "demo"), w.proxy()
	config := &tls.Config{InsecureSkipVerify: true}
	for range 2 {
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		check(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn,
			"POST %s%s HTTP/1.1\r\nHost: drover\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\n",
			EndpointTokensPrefix, id, jane)
		check(t, err)
	}
	code := 0
	for crowded, until := false,
		time.Now().Add(10*time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/"+id+"/version", jane)
		code = answer.StatusCode
		if crowded = crowded || code == http.StatusTooManyRequests; crowded && code == http.StatusOK {
			return
		}
	}
	t.Errorf("at the end other requests are answered with %d", code)
}
