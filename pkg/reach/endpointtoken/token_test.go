package endpointtoken

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
)

var (
	noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	here = Audience("c-m-1", "uid-1")
)

// dice are reproducible random numbers.
type dice struct{ *rand.ChaCha8 }

func (d dice) Read(p []byte) (int, error) { return d.ChaCha8.Read(p) }

func seed(n byte) dice { return dice{rand.NewChaCha8([32]byte{n})} }

func newKeys(t *testing.T, n byte) Keys {
	t.Helper()
	k, err := NewKeys(seed(n), noon)
	check(t, err)
	return k
}

func trust(t *testing.T, k Keys) *Trust {
	t.Helper()
	content, err := k.Trust(here)
	check(t, err)
	parsed, err := ParseTrust(content)
	check(t, err)
	return parsed
}

func jane(edits ...func(*Claims)) Claims {
	c := Claims{
		ID: "id-1", Audience: here, Issued: noon, Expires: noon.Add(DefaultLife),
		User: authenticationv1.UserInfo{
			Username: "jane", UID: "u-7", Groups: []string{"developers", "system:authenticated",
				"system:drover:serviceaccounts:ns"},
			Extra: map[string]authenticationv1.ExtraValue{"example.com/scopes": {"a", "b"}},
		},
	}
	for _, edit := range edits {
		edit(&c)
	}
	return c
}

func signed(t *testing.T, k Keys, c Claims) string {
	t.Helper()
	token, err := k.Sign(c)
	check(t, err)
	return token
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerify_ReturnsTheUser(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 1)
	got, err := trust(t, k).Verify(signed(t, k, jane()), noon.Add(time.Hour))
	check(t, err)
	want := jane().User
	want.Extra[CredentialIDExtra] = authenticationv1.ExtraValue{"JTI=id-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}

// raw signs arbitrary claims, as after a mistake or a theft.
func raw(t *testing.T, algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	check(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	check(t, err)
	return token
}

// changed returns a token with one part edited.
func changed(t *testing.T, token string, part int, edit func(map[string]any)) string {
	t.Helper()
	parts := strings.Split(token, ".")
	content, err := base64.RawURLEncoding.DecodeString(parts[part])
	check(t, err)
	var read map[string]any
	check(t, json.Unmarshal(content, &read))
	edit(read)
	content, err = json.Marshal(read)
	check(t, err)
	parts[part] = base64.RawURLEncoding.EncodeToString(content)
	return strings.Join(parts, ".")
}

func TestVerify_Refuses(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 1)
	good := signed(t, k, jane())
	id, err := keyID(publicOf(k.current))
	check(t, err)
	own := jose.JSONWebKey{Key: k.current, KeyID: id}
	claims := func(edits ...any) map[string]any {
		c := map[string]any{"iss": Issuer, "sub": "jane", "aud": here, "jti": "x", "iat": noon.Unix(),
			"exp": noon.Add(time.Hour).Unix()}
		for i := 0; i < len(edits); i += 2 {
			c[edits[i].(string)] = edits[i+1]
		}
		return c
	}
	if _, err := trust(t, k).Verify(raw(t, jose.EdDSA, own, claims()), noon); err != nil {
		t.Fatalf("the base case is refused: %v", err)
	}
	for name, c := range map[string]struct {
		token string
		at    time.Duration
		want  error
	}{
		"of another cluster": {signed(t, k, jane(func(c *Claims) {
			c.Audience = Audience("c-m-2", "uid-2")
		})), 0, ErrAudience},
		"of an earlier cluster with the same name": {signed(t, k, jane(func(c *Claims) {
			c.Audience = Audience("c-m-1", "uid-0")
		})), 0, ErrAudience},
		"for two clusters":  {raw(t, jose.EdDSA, own, claims("aud", []string{here, "x"})), 0, ErrAudience},
		"for no cluster":    {raw(t, jose.EdDSA, own, claims("aud", "")), 0, ErrAudience},
		"expired":           {good, DefaultLife + 2*leeway, ErrExpired},
		"from the future":   {good, -2 * leeway, ErrExpired},
		"without an expiry": {raw(t, jose.EdDSA, own, claims("exp", nil)), 0, ErrExpired},
		"without a start":   {raw(t, jose.EdDSA, own, claims("iat", nil)), 0, ErrExpired},
		"valid forever":     {raw(t, jose.EdDSA, own, claims("exp", noon.AddDate(10, 0, 0).Unix())), 0, ErrExpired},
		"of another issuer": {raw(t, jose.EdDSA, own, claims("iss", "https://elsewhere")), 0, ErrForeign},
		"of another issuer, with Drover's audience": {raw(t, jose.EdDSA, own,
			claims("iss", "https://elsewhere", "sub", Issuer)), 0, ErrForeign},
		"without a user": {raw(t, jose.EdDSA, own, claims("sub", "")), 0, ErrUser},
		"of a node":      {raw(t, jose.EdDSA, own, claims("sub", "system:node:a")), 0, ErrUser},
		"of system:masters": {raw(t, jose.EdDSA, own,
			claims("groups", []string{"a", "system:masters"})), 0, ErrUser},
		"of kubeadm's administrators": {raw(t, jose.EdDSA, own,
			claims("groups", []string{"kubeadm:cluster-admins"})), 0, ErrUser},
		"of Drover itself": {raw(t, jose.EdDSA, own,
			claims("groups", []string{"system:drover:cluster-admin"})), 0, ErrUser},
		"with another key": {signed(t, newKeys(t, 2), jane()), 0, ErrUnknown},
		"with another key under the same name": {
			raw(t, jose.EdDSA, jose.JSONWebKey{Key: newKeys(t, 2).current, KeyID: id}, claims()), 0, ErrUnknown},
		"with a key without a name": {raw(t, jose.EdDSA, k.current, claims()), 0, ErrUnknown},
		"HMAC with the public key": {
			raw(t, jose.HS256, jose.JSONWebKey{Key: []byte(publicOf(k.current)), KeyID: id}, claims()), 0, ErrForeign},
		"unsigned": {noSignature(changed(t, good, 0, func(h map[string]any) {
			h["alg"] = "none"
		})), 0, ErrForeign},
		"unsigned, with algorithm EdDSA": {noSignature(good), 0, ErrUnknown},
		"groups added after the signature": {changed(t, good, 1, func(c map[string]any) {
			c["groups"] = []string{"admins"}
		}), 0, ErrUnknown},
		"user changed after the signature": {changed(t, good, 1, func(c map[string]any) {
			c["sub"] = "joe"
		}), 0, ErrUnknown},
		"expiry changed after the signature": {changed(t, good, 1, func(c map[string]any) {
			c["exp"] = noon.AddDate(0, 0, 6).Unix()
		}), 0, ErrUnknown},
		"cut off":            {good[:len(good)-3], 0, ErrUnknown},
		"another prefix":     {"hunter2", 0, ErrForeign},
		"nothing":            {"", 0, ErrForeign},
		"too long":           {good + strings.Repeat("a", longest), 0, ErrForeign},
		"JSON serialization": {`{"payload":"e30","protected":"e30","signature":"e30"}`, 0, ErrForeign},
		"like a service account token": {raw(t, jose.EdDSA, own, claims("iss", "https://kubernetes.default.svc")), 0,
			ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := trust(t, k).Verify(c.token, noon.Add(c.at))
			if !errors.Is(err, c.want) || got.Username != "" {
				t.Errorf("user %q, error %v, want %v", got.Username, err, c.want)
			}
			if foreign := errors.Is(c.want, ErrForeign); IsOne(c.token) == foreign {
				t.Errorf("ErrForeign: %v, want %v", !foreign, foreign)
			}
		})
	}
}

func noSignature(token string) string { return token[:strings.LastIndex(token, ".")+1] }

func TestSign_RefusesInvalidClaims(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 1)
	for name, edit := range map[string]func(*Claims){
		"no expiry":                  func(c *Claims) { c.Expires = time.Time{} },
		"an expiry that is too late": func(c *Claims) { c.Expires = noon.Add(MaxLife + time.Second) },
		"no ID":                      func(c *Claims) { c.ID = "" },
		"no audience":                func(c *Claims) { c.Audience = "" },
		"no user":                    func(c *Claims) { c.User.Username = "" },
		"a service account of the cluster": func(c *Claims) {
			c.User.Username = "system:serviceaccount:kube-system:default"
		},
		"Kubernetes' administrators":  func(c *Claims) { c.User.Groups = []string{"system:masters"} },
		"Drover's own administrators": func(c *Claims) { c.User.Groups = []string{adminGroup} },
		"a machine identity":          func(c *Claims) { c.User.Username = "system:provisioning:fleet-default:demo" },
		"too many groups":             func(c *Claims) { c.User.Groups = []string{strings.Repeat("g", longest)} },
	} {
		if token, err := k.Sign(jane(edit)); err == nil {
			t.Errorf("%s: signed as %s", name, token)
		}
	}
}

// A key change needs no wait: the next key was trusted before, and the former key remains trusted until its last token
// has expired.
func TestKeys_Rotation(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 1)
	before := trust(t, k)
	if _, changed, err := k.Turn(seed(2), noon.Add(KeyLife-time.Second)); err != nil || changed {
		t.Fatalf("rotated too early: %v", err)
	}
	// A future time comes from a forgery or a wrong clock.
	for before, want := range map[time.Duration]bool{leeway: false, 2 * leeway: true, KeyLife: true} {
		if _, changed, err := k.Turn(seed(2), noon.Add(-before)); err != nil || changed != want {
			t.Errorf("%s before the rotation: changed %t, %v", before, changed, err)
		}
	}
	at := noon.Add(KeyLife)
	old := signed(t, k, jane(func(c *Claims) { c.Issued, c.Expires = at, at.Add(DefaultLife) }))
	turned, changed, err := k.Turn(seed(2), at)
	if err != nil || !changed {
		t.Fatalf("not rotated: %v", err)
	}
	fresh := signed(t, turned, jane(func(c *Claims) { c.Issued, c.Expires = at, at.Add(DefaultLife) }))
	for name, c := range map[string]struct {
		by    *Trust
		token string
	}{
		"a token of the old key": {trust(t, turned), old}, "a token of the new key": {trust(t, turned), fresh},
		"a token of the new key, with old trust": {before, fresh},
	} {
		if _, err := c.by.Verify(c.token, at.Add(time.Minute)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, changed, _ := turned.Turn(seed(3), at.Add(MaxLife)); changed {
		t.Error("the old key is removed while its tokens may be valid")
	}
	left, changed, err := turned.Turn(seed(3), at.Add(MaxLife+2*leeway))
	if err != nil || !changed {
		t.Fatalf("the old key is kept: %v", err)
	}
	if _, err := trust(t, left).Verify(old, at.Add(time.Minute)); !errors.Is(err, ErrUnknown) {
		t.Errorf("its tokens: %v", err)
	}
}

func TestKeys_RoundTrip(t *testing.T) {
	t.Parallel()
	k, _, err := newKeys(t, 1).Turn(seed(2), noon.Add(KeyLife))
	check(t, err)
	data, err := k.Data()
	check(t, err)
	read, err := ParseKeys(data)
	check(t, err)
	again, err := read.Data()
	check(t, err)
	if diff := cmp.Diff(data, again); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
	content, err := read.Trust(here)
	check(t, err)
	for _, secret := range []string{`"d"`, "PRIVATE"} {
		if strings.Contains(string(content), secret) || strings.Contains(fmt.Sprintf("%v %+v %#v", k, k, k), secret) {
			t.Errorf("a private key is printed: %s", content)
		}
	}
	for _, name := range []string{"current", "next", "former", "since"} {
		spoiled := maps.Clone(data)
		spoiled[name] = []byte("hunter2")
		if _, err := ParseKeys(spoiled); err == nil || !strings.HasPrefix(err.Error(), name) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestParseTrust_Refuses(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 1)
	private, err := json.Marshal(jose.JSONWebKey{Key: k.current, KeyID: "a", Algorithm: "EdDSA"})
	check(t, err)
	for name, content := range map[string]string{
		"nothing":        "",
		"no audience":    `{"keys":[]}`,
		"a private key":  `{"audience":"a","keys":[` + string(private) + `]}`,
		"a secret":       `{"audience":"a","keys":[{"kty":"oct","kid":"a","alg":"EdDSA","k":"AAAA"}]}`,
		"an unknown key": `{"audience":"a","keys":[{"kty":"none"}]}`,
	} {
		if _, err := ParseTrust([]byte(content)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
