package connect

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	ownSecrets = "/api/v1/namespaces/ns/secrets"
	ownSecret  = ownSecrets + "/b-machine-plan"
	ownFilter  = "fieldSelector=metadata.name%3Db-machine-plan"
)

func agentHeaders() map[string]string {
	return map[string]string{"Authorization": "Bearer " + planJWT}
}

func TestPassthrough_AllowsRequestsOfAgents(t *testing.T) {
	tests := map[string]struct{ method, target string }{
		"version":                {http.MethodGet, "/version"},
		"discovery":              {http.MethodGet, "/api?timeout=32s"},
		"group discovery":        {http.MethodGet, "/apis?timeout=32s"},
		"list of its own secret": {http.MethodGet, ownSecrets + "?" + ownFilter + "&limit=500"},
		"streaming list": {
			http.MethodGet,
			ownSecrets + "?allowWatchBookmarks=true&" + ownFilter +
				"&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=400&watch=true",
		},
		"watch":            {http.MethodGet, ownSecrets + "?" + ownFilter + "&resourceVersion=12&watch=1"},
		"get":              {http.MethodGet, ownSecret},
		"get with version": {http.MethodGet, ownSecret + "?resourceVersion=0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			server, client := w.serve()
			response, body := ask(t, server, client, tc.method, tc.target, with(agentHeaders(),
				"User-Agent", "agent/1", "Accept", "application/json", "X-Remote-User", "admin", "X-Remote-Group",
				"system:masters", "X-Forwarded-For", "1.2.3.4", "Cookie", "a=b"))
			if response.StatusCode != http.StatusOK || body != "from the API server" {
				t.Fatalf("status %d, body %s", response.StatusCode, body)
			}
			seen := w.reached()[0]
			if got := seen.URL.RequestURI(); got != tc.target || seen.Method != tc.method {
				t.Errorf("API server saw %s %s, want %s %s", seen.Method, got, tc.method, tc.target)
			}
			headers := map[string][]string(seen.Header)
			delete(headers, "Accept-Encoding")
			want := map[string][]string{"Authorization": {"Bearer " + planJWT}, "User-Agent": {"agent/1"},
				"Accept": {"application/json"}}
			if diff := cmp.Diff(want, headers); diff != "" {
				t.Errorf("headers at the API server (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPassthrough_RefusedBeforeTheAPIServer(t *testing.T) {
	get, put := http.MethodGet, http.MethodPut
	tests := map[string]struct {
		method, target string
		headers        []string
	}{
		"secret of another machine":      {get, "/api/v1/namespaces/ns/secrets/o-machine-plan", nil},
		"update of another machine's":    {put, "/api/v1/namespaces/ns/secrets/o-machine-plan", nil},
		"same name in another namespace": {get, "/api/v1/namespaces/kube-system/secrets/b-machine-plan", nil},
		"all secrets":                    {get, "/api/v1/secrets", nil},
		"all secrets by its own name":    {get, "/api/v1/secrets?" + ownFilter, nil},
		"all secrets of the namespace":   {get, ownSecrets, nil},
		"watch of the namespace":         {get, ownSecrets + "?watch=true", nil},
		"selector of another secret":     {get, ownSecrets + "?fieldSelector=metadata.name%3Do-machine-plan", nil},
		"selector of everything else":    {get, ownSecrets + "?fieldSelector=metadata.name!%3Db-machine-plan", nil},
		"selector of nothing":            {get, ownSecrets + "?fieldSelector=", nil},
		"selector by type": {get, ownSecrets + "?fieldSelector=type%3Drke.cattle.io/machine-plan",
			nil},
		"two selectors in one": {get, ownSecrets +
			"?fieldSelector=metadata.name%3Db-machine-plan,metadata.namespace%3Dns", nil},
		"two selectors": {get, ownSecrets + "?" + ownFilter +
			"&fieldSelector=metadata.name%3Do-machine-plan", nil},
		"two selectors, the other way": {get, ownSecrets + "?fieldSelector=metadata.name%3Do-machine-plan&" +
			ownFilter, nil},
		"selector in another case":          {get, ownSecrets + "?fieldselector=metadata.name%3Db-machine-plan", nil},
		"selector and labels":               {get, ownSecrets + "?" + ownFilter + "&labelSelector=a", nil},
		"selector behind a semicolon":       {get, ownSecrets + "?" + ownFilter + ";watch=true", nil},
		"selector with an invalid encoding": {get, ownSecrets + "?" + ownFilter + "&a=%zz", nil},
		"unneeded parameter":                {get, ownSecret + "?pretty=true", nil},
		"watch by name":                     {get, ownSecret + "?watch=true", nil},
		"old watch path":                    {get, "/api/v1/watch/namespaces/ns/secrets/b-machine-plan", nil},
		"sub-resource":                      {get, ownSecret + "/status", nil},
		"create":                            {http.MethodPost, ownSecrets, nil},
		"delete":                            {http.MethodDelete, ownSecret, nil},
		"delete all":                        {http.MethodDelete, ownSecrets + "?" + ownFilter, nil},
		"patch":                             {http.MethodPatch, ownSecret, nil},
		"head":                              {http.MethodHead, ownSecret, nil},
		"connect":                           {http.MethodOptions, ownSecret, nil},
		"update of the collection":          {put, ownSecrets + "?" + ownFilter, nil},
		"double slash":                      {get, "//api/v1/namespaces/ns/secrets/b-machine-plan", nil},
		"double slash inside":               {get, "/api/v1/namespaces/ns//secrets/b-machine-plan", nil},
		"slash at the end":                  {get, ownSecret + "/", nil},
		"dots":                              {get, "/api/v1/namespaces/ns/secrets/../secrets/b-machine-plan", nil},
		"encoded dots":                      {get, ownSecrets + "/..%2fsecrets%2fo-machine-plan", nil},
		"encoded dots up":                   {get, ownSecrets + "/%2e%2e/configmaps", nil},
		"encoded slash":                     {get, "/api/v1/namespaces/ns%2fsecrets/b-machine-plan", nil},
		"encoded letter":                    {get, "/api/v1/namespaces/ns/secrets/b-machine-pla%6e", nil},
		"encoded question mark":             {get, ownSecret + "%3fwatch=true", nil},
		"null byte":                         {get, ownSecret + "%00", nil},
		"upper case":                        {get, "/API/v1/namespaces/ns/secrets/b-machine-plan", nil},
		"version with a slash":              {get, "/version/", nil},
		"version by post":                   {http.MethodPost, "/version", nil},
		"discovery of a group":              {get, "/apis/apps/v1", nil},
		"discovery of the core group":       {get, "/api/v1", nil},
		"watching discovery":                {get, "/api?watch=true", nil},
		"pods":                              {get, "/api/v1/namespaces/ns/pods", nil},
		"token request": {http.MethodPost,
			"/api/v1/namespaces/ns/serviceaccounts/b-machine-plan/token", nil},
		"access review":            {http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", nil},
		"metrics":                  {get, "/metrics", nil},
		"openapi":                  {get, "/openapi/v2", nil},
		"root":                     {get, "/", nil},
		"health of the API server": {get, "/livez", nil},
		"websocket":                {get, ownSecret, []string{"Upgrade", "websocket", "Connection", "Upgrade"}},
		"websocket watch": {get, ownSecrets + "?watch=true&" + ownFilter,
			[]string{"Upgrade", "websocket", "Connection", "keep-alive, Upgrade"}},
		"half an upgrade":         {get, ownSecret, []string{"Connection", "upgrade"}},
		"impersonating a user":    {get, ownSecret, []string{"Impersonate-User", "admin"}},
		"impersonating a group":   {get, ownSecret, []string{"Impersonate-Group", "system:masters"}},
		"impersonating an extra":  {get, ownSecret, []string{"Impersonate-Extra-Scopes", "x"}},
		"another connection path": {get, agentPath + "/", nil},
		"assets outside":          {get, "/assets%2f..%2fetc", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			server, client := w.serve()
			response, body := ask(t, server, client, tc.method, tc.target, with(agentHeaders(), tc.headers...))
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("status %d, body %s; want 403", response.StatusCode, body)
			}
			if reached := w.reached(); len(reached) != 0 {
				t.Errorf("the API server got %s %s", reached[0].Method, reached[0].URL)
			}
			if tc.method != http.MethodHead {
				var status metav1.Status
				decodeJSON(t, body, &status)
				if status.Reason != metav1.StatusReasonForbidden || status.Code != http.StatusForbidden {
					t.Errorf("status object = %+v", status)
				}
			}
		})
	}
}

func TestPassthrough_OnlyLivePlanAccountsPass(t *testing.T) {
	tests := map[string]struct {
		authorization string
		prepare       func(*world)
	}{
		"nothing":                        {authorization: ""},
		"nonsense":                       {authorization: "Bearer nonsense"},
		"empty token":                    {authorization: "Bearer "},
		"bootstrap token":                {authorization: "Bearer " + naming.TokenHash(bootstrapJWT)},
		"token of the bootstrap account": {authorization: "Bearer " + bootstrapJWT},
		"digest of the plan token":       {authorization: "Bearer " + naming.TokenHash(planJWT)},
		"basic":                          {authorization: "Basic " + planJWT},
		"the server's own token":         {authorization: "Bearer the-servers-own-credential"},
		"token of a recreated account": {authorization: "Bearer " + planJWT, prepare: func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) { a.UID = "new" })
		}},
		"token of an account with another role": {authorization: "Bearer " + planJWT, prepare: func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				a.Labels[rkev1.ServiceAccountRoleLabel] = "other"
			})
		}},
		"token of an account without plan": {authorization: "Bearer " + planJWT, prepare: func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				delete(a.Labels, rkev1.PlanSecretNameLabel)
			})
		}},
		"token whose secret is of another type": {authorization: "Bearer " + planJWT, prepare: func(w *world) {
			change(w, w.secrets, "b-machine-plan-token", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.prepare != nil {
				tc.prepare(w)
			}
			server, client := w.serve()
			for _, target := range []string{ownSecret, "/version"} {
				response, body := ask(t, server, client, http.MethodGet, target,
					map[string]string{"Authorization": tc.authorization})
				if response.StatusCode != http.StatusUnauthorized || len(w.reached()) != 0 {
					t.Errorf("%s: status %d, body %s, %d requests reached the API server", target, response.StatusCode,
						body, len(w.reached()))
				}
			}
		})
	}
}

func TestPassthrough_EachTokenGivesAccessToItsOwnPlan(t *testing.T) {
	w := newWorld(t)
	server, client := w.serve()
	for token, own := range map[string]string{planJWT: "b-machine-plan", otherJWT: "o-machine-plan"} {
		for _, name := range []string{"b-machine-plan", "o-machine-plan"} {
			want := http.StatusForbidden
			if name == own {
				want = http.StatusOK
			}
			response, _ := ask(t, server, client, http.MethodGet, ownSecrets+"/"+name,
				map[string]string{"Authorization": "Bearer " + token})
			if response.StatusCode != want {
				t.Errorf("token of %s asking for %s: status %d, want %d", own, name, response.StatusCode, want)
			}
		}
	}
}

func TestPassthrough_RefusesTwoTokens(t *testing.T) {
	w := newWorld(t)
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	request := newRequest(t, http.MethodGet, ownSecret)
	request.Header["Authorization"] = []string{"Bearer " + planJWT, "Bearer " + otherJWT}
	if got := record(handler, request).Code; got != http.StatusUnauthorized {
		t.Errorf("status %d", got)
	}
}

func TestPassthrough_BodyIsLimited(t *testing.T) {
	w := newWorld(t)
	response, received := w.put(t, bytes.Repeat([]byte("x"), maxBody+1), "application/json")
	if response.StatusCode != http.StatusRequestEntityTooLarge || received != nil {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestPassthrough_UnavailableAPIServer(t *testing.T) {
	w := newWorld(t)
	w.options.Upstream.Host = "https://127.0.0.1:1"
	server, client := w.serve()
	response, body := ask(t, server, client, http.MethodGet, ownSecret, agentHeaders())
	if response.StatusCode != http.StatusBadGateway || strings.Contains(body, "127.0.0.1") {
		t.Errorf("status %d, body %s", response.StatusCode, body)
	}
}

func TestPassthrough_BeforeTheCachesAreFilled(t *testing.T) {
	w := newWorld(t)
	w.options.Synced = func() bool { return false }
	server, client := w.serve()
	response, _ := ask(t, server, client, http.MethodGet, ownSecret, agentHeaders())
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" ||
		len(w.reached()) != 0 {
		t.Errorf("status %d, headers %v", response.StatusCode, response.Header)
	}
}
