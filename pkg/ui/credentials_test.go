package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const (
	credentialsPath = "/ui/api/v1/namespaces/team-a/credentials"
	// firstValue and secondValue are the values of a credential before and after its replacement.
	firstValue, secondValue = "hunter2-the-first", "hunter2-the-second"
)

// keeper is a page whose answers and whose server's log are searched for values.
type keeper struct {
	*page
	log *bytes.Buffer
}

func keeps(t *testing.T, f *fakeAPI) *keeper {
	t.Helper()
	k := &keeper{log: &bytes.Buffer{}}
	opts := options(f.serve(t))
	log := logrus.New()
	log.SetOutput(k.log)
	opts.Log = log
	k.page = newPage(t, opts)
	k.signIn(token)
	return k
}

// write sends a body as JSON.
func (k *keeper) write(method, path string, body map[string]any) *httptest.ResponseRecorder {
	k.t.Helper()
	k.relax()
	data, err := json.Marshal(body)
	check(k.t, err)
	got := k.do(k.request(method, path, string(data)))
	for _, value := range []string{firstValue, secondValue} {
		if strings.Contains(got.Body.String(), value) || strings.Contains(k.log.String(), value) {
			k.t.Errorf("%s %s shows a value: %s %s", method, path, got.Body, k.log)
		}
	}
	return got
}

func newCredential(changes map[string]any) map[string]any {
	out := map[string]any{"displayName": "ours", "driver": "sim", "values": map[string]string{"key": firstValue}}
	maps.Copy(out, changes)
	return out
}

// problemsOf are the fields of the problems of a refused write.
func problemsOf(t *testing.T, got *httptest.ResponseRecorder) []string {
	t.Helper()
	wants(t, got, http.StatusUnprocessableEntity, reasonInvalid)
	var body failureBody
	check(t, json.Unmarshal(got.Body.Bytes(), &body))
	fields := []string{}
	for _, problem := range body.Problems {
		fields = append(fields, problem.Field)
	}
	return fields
}

func TestCredentials_AreCreatedAndReplacedAndNeverShown(t *testing.T) {
	f := newFakeAPI(t, sim()...)
	k := keeps(t, f)
	got := k.write(http.MethodPost, credentialsPath, newCredential(nil))
	var made objectBody
	check(t, json.Unmarshal(got.Body.Bytes(), &made))
	if got.Code != http.StatusCreated || made.Namespace != "team-a" ||
		!regexp.MustCompile(`^cc-[a-z0-9]{5}$`).MatchString(made.Name) ||
		got.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	read := func() *corev1.Secret {
		secret, err := f.client(t).CoreV1().Secrets("team-a").Get(t.Context(), made.Name, metav1.GetOptions{})
		check(t, err)
		return secret
	}
	secret := read()
	if secret.Type != provv1.SecretTypeCloudCredential || secret.Annotations["field.cattle.io/name"] != "ours" ||
		string(secret.Data["simcredentialConfig-key"]) != firstValue || len(secret.Data) != 1 {
		t.Errorf("got %+v", secret)
	}
	got = k.write(http.MethodPut, credentialsPath+"/"+made.Name, map[string]any{
		"values": map[string]string{"key": secondValue, "account": "me"}})
	if got.Code != http.StatusOK || decode[objectBody](t, got) != made {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	secret.Data = map[string][]byte{"simcredentialConfig-key": []byte(secondValue),
		"simcredentialConfig-account": []byte("me")}
	now := read()
	secret.ResourceVersion, secret.Generation = now.ResourceVersion, now.Generation
	secret.ManagedFields = now.ManagedFields
	if diff := cmp.Diff(secret, now); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
}

// A browser repeats a request whose connection ends without an answer.
func TestCredentials_ARepeatedRequestMakesNoSecondOne(t *testing.T) {
	f := newFakeAPI(t, sim()...)
	k := keeps(t, f)
	data, err := json.Marshal(newCredential(nil))
	check(t, err)
	post := func() *httptest.ResponseRecorder {
		k.relax()
		r := k.request(http.MethodPost, credentialsPath, string(data))
		r.Header.Set(attemptHeader, "one")
		return k.do(r)
	}
	if got := post(); got.Code != http.StatusCreated {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	wants(t, post(), http.StatusBadGateway, reasonUnknown)
	if got := f.sent(); len(got) != 1 {
		t.Errorf("writes %v", got)
	}
}

func TestCredentials_RefuseWhatTheDriverDoesNotTake(t *testing.T) {
	f := newFakeAPI(t, sim()...)
	k := keeps(t, f)
	for name, tc := range map[string]struct {
		changes map[string]any
		want    []string
	}{
		"an unknown value": {map[string]any{"values": map[string]string{"key": firstValue, "kee": secondValue}},
			[]string{"values.kee"}},
		"a missing value":   {map[string]any{"values": map[string]string{"account": "me"}}, []string{"values.key"}},
		"an unknown driver": {map[string]any{"driver": "none"}, []string{"driver"}},
		"no name":           {map[string]any{"displayName": ""}, []string{"displayName"}},
		"all at once": {map[string]any{"displayName": "", "driver": "", "values": nil},
			[]string{"displayName", "driver", "values"}},
		"S3, which is no driver": {map[string]any{"driver": "s3"},
			[]string{"values.key", "values.accessKey", "values.secretKey"}},
	} {
		got := problemsOf(t, k.write(http.MethodPost, credentialsPath, newCredential(tc.changes)))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got := k.write(http.MethodPost, credentialsPath, map[string]any{"values": firstValue})
	wants(t, got, http.StatusBadRequest, reasonInvalid)
	f.forbid("ann", "team-a")
	wants(t, k.write(http.MethodPost, credentialsPath, newCredential(nil)), http.StatusForbidden, reasonForbidden)
	if sent := f.sent(); len(sent) != 1 {
		t.Errorf("writes %v", sent)
	}
}

// A caller who may not read the schema of the driver can create and replace a credential all the same.
func TestCredentials_WithoutTheSchema(t *testing.T) {
	f := newFakeAPI(t, append(sim(), secretObject("team-a", "plain", nil))...)
	f.forbid("ann", "")
	k := keeps(t, f)
	got := k.write(http.MethodPost, credentialsPath, newCredential(map[string]any{"name": "cc-1"}))
	if got.Code != http.StatusCreated {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	path := credentialsPath + "/cc-1"
	fields := problemsOf(t, k.write(http.MethodPut, path, map[string]any{
		"values": map[string]string{"other": secondValue}}))
	if diff := cmp.Diff([]string{"values.key"}, fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = k.write(http.MethodPut, path, map[string]any{"values": map[string]string{"key": secondValue}})
	if got.Code != http.StatusOK {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	wants(t, k.write(http.MethodPost, credentialsPath, newCredential(map[string]any{"name": "cc-1"})),
		http.StatusConflict, reasonExists)
	for _, name := range []string{"absent", "plain"} {
		wants(t, k.write(http.MethodPut, credentialsPath+"/"+name, map[string]any{
			"values": map[string]string{"key": secondValue}}), http.StatusNotFound, reasonNotFound)
	}
}

// An answer that repeats a value is masked. A write without an answer may have taken effect, and is not sent again.
func TestCredentials_ErrorsHideValues(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err    error
		code   int
		reason string
	}{
		"a webhook repeats the value": {
			apierrors.NewForbidden(secrets, "x", errors.New("value "+firstValue+" is weak")),
			http.StatusForbidden, reasonForbidden},
		"the API server repeats it": {apierrors.NewBadRequest("data " + firstValue), http.StatusUnprocessableEntity,
			reasonInvalid},
		"the storage is lost": {apierrors.NewInternalError(errors.New("etcd lost " + firstValue)),
			http.StatusBadGateway, reasonUnknown},
		"it takes too long": {apierrors.NewTimeoutError("too long", 1), http.StatusGatewayTimeout, reasonUnknown},
		"another write came": {apierrors.NewConflict(secrets, "x", errors.New("y")), http.StatusPreconditionFailed,
			reasonChanged},
		"the token is expired": {apierrors.NewUnauthorized("x"), http.StatusUnauthorized, reasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t, sim()...)
			f.Intercept(func(r memkube.Request) error {
				if r.Resource.Resource == "secrets" && r.Verb == "create" {
					return tc.err
				}
				return nil
			})
			wants(t, keeps(t, f).write(http.MethodPost, credentialsPath, newCredential(nil)), tc.code, tc.reason)
			if sent := f.sent(); len(sent) != 1 {
				t.Errorf("writes %v", sent)
			}
		})
	}
}
