package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/testkit/packed"
)

// TestSecrets_AreFoundInEveryForm checks that a known value is found in any form, alone or within a longer text.
func TestSecrets_AreFoundInEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9!#$%&?@^~ /"+=-]{10,40}`).Filter(func(s string) bool {
			return len(strings.TrimSpace(s)) == len(s)
		}).Draw(t, "secret")
		around := rapid.StringMatching(`[a-z :]{0,5}`).Draw(t, "around")
		quoted, err := json.Marshal(map[string]string{"x": secret})
		if err != nil {
			t.Fatal(err)
		}
		known := &Secrets{}
		known.AddData(map[string][]byte{"anything": []byte(secret)})
		for form, text := range map[string]string{
			"plain": around + secret + around, "quoted": string(quoted), "query": "https://x/?a=" +
				url.QueryEscape(secret), "path": "https://x/" + url.PathEscape(secret),
			"base64":        base64.StdEncoding.EncodeToString([]byte(secret)),
			"inside base64": base64.StdEncoding.EncodeToString([]byte(around + secret + around)),
			"URLs' base64":  base64.RawURLEncoding.EncodeToString([]byte("u:" + secret + around)),
		} {
			if masked := known.Mask(text); reveals(masked, secret) {
				t.Fatalf("%s: %q becomes %q", form, text, masked)
			}
		}
	})
}

// reveals reports whether a text contains a secret, as it is or in intact base64.
func reveals(text, secret string) bool {
	plain, err := base64.StdEncoding.DecodeString(text)
	return strings.Contains(text, secret) || err == nil && bytes.Contains(plain, []byte(secret))
}

func TestSecrets_FindsPartsOfDocuments(t *testing.T) {
	known := &Secrets{}
	known.AddData(map[string][]byte{
		".dockerconfigjson": []byte(
			`{"auths":{"registry.example.com":{"username":"robot-name","password":"pa-ss-wo-rd","auth":"cm9ib3QtbmFtZTpvdGhlci1wYXNz"}}}`),
		"value": []byte(
			"users:\n- user:\n    token: a-long-token\nclusters:\n- cluster:\n    server: https://demo.example.com\n"),
		"tls.key": []byte(
			"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQ\n-----END PRIVATE " +
				"KEY-----\n"),

		"amazonec2credentialConfig-secretKey":     []byte("cloud-secret"),
		"amazonec2credentialConfig-defaultRegion": []byte("eu-central-1"),
		"on": []byte("true"), "username": []byte("another-owner"),
	})
	for _, secret := range []string{"pa-ss-wo-rd", "other-pass", "a-long-token", "EFAASCBKcwggSjAgEAAoIBAQ",
		"cloud-secret"} {
		if got := known.Mask("before " + secret + " after"); got != "before *** after" {
			t.Errorf("%s becomes %q", secret, got)
		}
	}
	for _, harmless := range []string{"it is true", "robot-name", "eu-central-1", "https://demo.example.com",
		"another-owner"} {
		if got := known.Mask(harmless); got != harmless {
			t.Errorf("%s becomes %q", harmless, got)
		}
	}
}

func TestSecrets_NoneAreKnown(t *testing.T) {
	var none *Secrets
	if got := none.Mask("text") + (&Secrets{}).Mask("text"); got != "texttext" {
		t.Errorf("got %q", got)
	}
}

// TestTail_NeverSplitsASecret checks that a secret of several words is masked even if it begins before the returned
// part.
func TestTail_NeverSplitsASecret(t *testing.T) {
	known := &Secrets{}
	known.Add("correct horse battery staple")
	for size := range 900 {
		text := strings.Repeat("y ", 500) + "correct horse battery staple " + strings.Repeat("z ", size)
		if got := Tail([]byte(text), 200, known); strings.Contains(got, "staple") || strings.Contains(got, "battery") {
			t.Fatalf("before %d bytes: %q", 2*size, got)
		}
	}
}

func TestTail_KnowsPassAsAVerb(t *testing.T) {
	const text = "these checks did not pass: etcd; pass: hunter2"
	if got := Tail([]byte(text), 200, nil); got != "these checks did not pass: etcd; pass: ***" {
		t.Errorf("got %q", got)
	}
}

func TestTail_KnowsUsersWithoutAScheme(t *testing.T) {
	if got := Tail([]byte("cannot pull from user:hunter2@reg.example.com"), 200,
		nil); got != "cannot pull from ***@reg.example.com" {
		t.Errorf("got %q", got)
	}
}

func TestText_KeepsOtherText(t *testing.T) {
	for text, want := range map[string]string{
		"demo-workers-7xk2p-abcde-machine-provision-1234567890 failed":               "",
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855":    "",
		"password: hunter2 and more":                                                 "password: *** and more",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nafter": "***\nafter",
		"get https://u:p@x/":                                                       "get https***x/",
		"get https://u:h@nter2@x/":                                                 "get https***x/",
		"pull https://u:hun/ter2@x/y failed":                                       "pull https***x/y failed",
		"pull docker://reg:5000/a/b:v1@sha256:e3b0c44298fc1":                       "",
		"get https://reg:5000/@scope/a":                                            "",
		"not \"user:hunter2@reg.example.com\"":                                     "not \"***@reg.example.com\"",
		"pull robot$x:hunter@2@reg:5000/a":                                         "pull ***@reg:5000/a",
		"git@example.com: at 12:30:45 user@x":                                      "",
		"reg:5000/a/b:v1@sha256:e3b0c44298fc1":                                     "",
		"get https://x/a?sig=abc&x=y: 403":                                         "get https://x/a?*** 403",
		"curl --token hunter2 x":                                                   "curl --token *** x",
		"make --linode-root-pass hunter2 x":                                        "make --linode-root-pass *** x",
		`{"rootPass":"hunter2"}`:                                                   `{"rootPass":***}`,
		"Authorization: Bearer hunter2":                                            "Authorization: Bearer ***",
		`{"clientSecret":"hunter2"}`:                                               `{"clientSecret":***}`,
		"Secret fleet-default/cloud, the cloud credential of the machine, is gone": "",
		"probes do not pass: kubelet, etcd":                                        "",
		"probes don't pass: etcd; they never pass: kubelet":                        "",
		"they do not pass: password: hunter2, pass: hunter2": "they do not pass: password: *** " +
			"pass: ***",
		"log in with pass: hunter2":          "log in with pass: ***",
		"user x\npass: hunter2":              "user x\npass: ***",
		"notpass: hunter2 not_pass: hunter2": "notpass: *** not_pass: ***",
		"do not pass=hunter2":                "do not pass=***",
		`get secret: secrets "a" not found; secretName x; credential of the machine`: "",
	} {
		if want == "" {
			want = text
		}
		if got := Text(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestAddress_HasNoUser(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for given, want := range map[string]string{
		"reg.example.com:5000/mirror": "reg.example.com:5000/mirror",
		"https://reg.example.com":     "https://reg.example.com", "": "",
		"user:hunter2@reg.example.com": "reg.example.com", "hunter2@reg:5000": "reg:5000",
		"https://user:hunter2@reg.example.com":    "https://reg.example.com",
		"user:hunter2/hunter2@hunter2@reg:5000/a": "reg:5000/a", "http://u:hunter2?#@reg": "http://reg",
		"reg.example.com/a?sig=hunter2":      "reg.example.com/a?***",
		"https://host/x?sig=hunter2@hunter2": "https://host/x?***", "hunter2@host/x?sig=hunter2@hunter2": "host/x?***",
		"https://host:8443/x?sig=hunter2@hunter2": "https://***", "u:hunter2@host/x?sig=hunter2@hunter2": "***",
		"u:hunter2/hunter2?@host/x": "host/x",
		"reg:5000/a:v1" + digest:    "reg:5000/a:v1" + digest, "u:hunter2@reg/a" + digest: "reg/a" + digest,
	} {
		if got := Address(given); got != want {
			t.Errorf("%s becomes %s", given, got)
		}
	}
}

func TestVariable_HasNoValue(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "a-b": "a-b", "1ST": "1ST", "A=": "A=", "$env:A": "$env:A",
		"HTTPS_PROXY=http://u:hunter2@proxy": "HTTPS_PROXY=***", "PROXY hunter2": "PROXY ***",
		"http://u:hunter2@proxy": "http:***", "$env:PROXY=hunter2": "$env:PROXY=***",
		"A;hunter2": "A;***", "A,B=hunter2": "A,***", "A\x00hunter2": "A\x00***", "A\u00a0hunter2": "A\u00a0***",
		"A=hunter2$env:C": "A=***", "a.b_c": "a.b_c",
	} {
		if got := Variable(given); got != want {
			t.Errorf("%s becomes %s", given, got)
		}
	}
}

func TestURL_HasNeitherPasswordNorQuery(t *testing.T) {
	for given, want := range map[string]string{
		"https://u:hunter2@x/y?sig=hunter2#hunter2": "https://u:xxxxx@x/y?***", "https://x/y": "https://x/y",
	} {
		location, err := url.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		if got := URL(location); got != want {
			t.Errorf("%s becomes %s", given, got)
		}
	}
}

func TestNamed_DistinguishesSecretsFromNames(t *testing.T) {
	for name, want := range map[string]bool{
		"rootPass": true, "--linode-root-pass": true, "bypassed": false,
		"token": true, "agent-token": true, "sshPassword": true, "secretKey": true, "clientSecret": true,
		"etcd-s3-access-key": true, "sshKeyContents": true,
		"authEncodedJson": true, "key-data": true, "cloudCredentialSecretName": false, "authConfigSecretName": false,
		"dataSecretName": false, "tokenTTL": false, "region": false,
		"instanceType": false, "token-file": false, "keyPairName": false, "tlsSecretName": false,
		"cloudCredentialName": false,
	} {
		if got := Named(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEncoded_HidesTextsAndShowsNames(t *testing.T) {
	for _, text := range []string{
		packed.Text(`{"a":"secret"}`), base64.StdEncoding.EncodeToString([]byte("password: hunter2 and more of it")),
		base64.RawURLEncoding.EncodeToString([]byte("another text that is longer")), "abc" +
			base64.StdEncoding.EncodeToString([]byte("password: hunter2 and more of it")),
	} {
		if got := Encoded("x: " + text + " y"); strings.Contains(got, text[4:20]) {
			t.Errorf("%s becomes %q", text, got)
		}
	}
	for _, text := range []string{
		"demo-workers-7xk2p-abcde-machine-provision-1234567890",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"/var/lib/rancher/rke2/server/manifests/rancher", "cluster.x-k8s.io/cluster-name",
		"v1beta2.provisioning.cattle.io/v1/namespaces/fleet-default/clusters",
	} {
		if got := Encoded(text); got != text {
			t.Errorf("%s becomes %q", text, got)
		}
	}
}
