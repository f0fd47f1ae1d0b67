package endpointauth

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// FuzzAuthenticate: for any input, only the one valid token authenticates a user.
func FuzzAuthenticate(f *testing.F) {
	w := newWorld(f)
	good := w.token(w.keys)
	f.Add([]byte(review("v1", good)))
	f.Add([]byte(review("v1beta1", good[:len(good)-1])))
	f.Add([]byte(
		review("v1", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJkcm92ZXIuaW8vY2x1c3Rlci1lbmRwb2ludCIsInN1YiI6ImphbmUifQ.")))
	f.Add([]byte(`{"kind":"TokenReview"}`))
	f.Add([]byte(`{"spec":{"token":{}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		code, answer := w.of(t).asks(string(body))
		if code != http.StatusOK {
			return
		}
		var asked, got authenticationv1.TokenReview
		if json.Unmarshal(body, &asked) != nil || json.Unmarshal([]byte(answer), &got) != nil {
			t.Fatalf("%q is answered with %q", body, answer)
		}
		who := got.Status.User
		right := who.Username == "" && len(who.Groups) == 0
		if got.Status.Authenticated {
			right = who.Username == "jane" && slices.Equal(who.Groups, []string{"developers", "system:authenticated"})
		}
		if !right || asked.Spec.Token == good && !got.Status.Authenticated || got.APIVersion != asked.APIVersion {
			t.Errorf("%q is answered with %q", body, answer)
		}
	})
}
