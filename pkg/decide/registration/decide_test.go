package registration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/registration"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

const (
	old   = "an-old-token-that-is-long-enough-to-be-one-1234567890"
	fresh = "a-fresh-token"
)

// at is a stored time, relative to noon.
func at(d time.Duration) string { return noon.Add(d).Format(time.RFC3339) }

// facts are about a token for hosts that was created at noon. The pairs are keys and values of its Secret; without
// pairs there is no Secret. Without the address of a server, there are no commands.
func facts(pairs ...string) *registration.Facts {
	token := &mgmtv3.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "c-m-1", Name: "default-token", UID: "uid-1", CreationTimestamp: metav1.NewTime(noon),
			Labels: map[string]string{mgmtv3.TokenPurposeLabel: mgmtv3.TokenPurposeNode},
		},
		Spec: mgmtv3.ClusterRegistrationTokenSpec{ClusterName: "c-m-1"},
	}
	f := &registration.Facts{Registration: token, Fresh: fresh, Now: noon}
	if len(pairs) > 0 {
		f.Secret = secret(f, pairs...)
	}
	return f
}

func secret(f *registration.Facts, pairs ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "c-m-1", Name: "crt-token-default-token",
			Labels: map[string]string{mgmtv3.TokenPurposeLabel: mgmtv3.TokenPurposeNode},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "management.cattle.io/v3", Kind: "ClusterRegistrationToken", Name: "default-token",
				UID: f.Registration.UID, Controller: new(true),
			}},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	for i := 0; i < len(pairs); i += 2 {
		s.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return s
}

// data is the content of the Secret after a decision; nil when the Secret is not written.
func data(d registration.Decision) map[string]string {
	if d.Secret == nil {
		return nil
	}
	out := map[string]string{}
	for key, value := range d.Secret.Data {
		out[key] = string(value)
	}
	return out
}

// spread is the jitter of the first lifetime of a month for UID uid-1.
const spread = 23*time.Minute + 36*time.Second

// agentsFollow makes a token one for agents, and the caller distributes new tokens.
func agentsFollow(f *registration.Facts) {
	f.Registration.Labels[mgmtv3.TokenPurposeLabel], f.Settings.AgentsFollow = mgmtv3.TokenPurposeAgent, true
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const month = registration.DefaultTTL
	for name, tc := range map[string]struct {
		facts *registration.Facts
		edit  func(*registration.Facts)
		want  map[string]string // nil: not written
		event registration.Event
		next  time.Duration // after noon; 0: none
	}{
		"a new token is created and valid for a month": {
			facts: facts(), event: registration.Made,
			want: map[string]string{"token": fresh, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"a valid token is kept": {
			facts: facts("token", old, "expiresAt", at(time.Hour)), next: time.Hour,
		},
		"the token has expired": {
			facts: facts("token", old, "expiresAt", at(0)), event: registration.Replaced,
			want: map[string]string{"token": fresh, "previousToken": old, "expiresAt": at(month),
				"gracePeriodExpiresAt": at(3 * time.Hour)}, next: 3 * time.Hour,
		},
		"the token expired a year ago": {
			facts: facts("token", old, "previousToken", "older", "expiresAt", at(-365*24*time.Hour),
				"gracePeriodExpiresAt", at(-364*24*time.Hour)), event: registration.Replaced,
			want: map[string]string{"token": fresh, "previousToken": old, "expiresAt": at(month),
				"gracePeriodExpiresAt": at(3 * time.Hour)}, next: 3 * time.Hour,
		},
		"within the grace period both are valid": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(time.Hour), "gracePeriodExpiresAt",
				at(time.Minute)), next: time.Minute,
		},
		"the grace period is over": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(time.Hour), "gracePeriodExpiresAt",
				at(0)),
			want: map[string]string{"token": "new", "expiresAt": at(time.Hour)}, next: time.Hour,
		},
		"a previous token with an unknown expiry is invalid": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(time.Hour), "gracePeriodExpiresAt",
				"soon"),
			want: map[string]string{"token": "new", "expiresAt": at(time.Hour)}, next: time.Hour,
		},
		"no grace period": {
			facts: facts("token", "new", "expiresAt", at(time.Hour), "gracePeriodExpiresAt", at(time.Minute)),
			want:  map[string]string{"token": "new", "expiresAt": at(time.Hour)}, next: time.Hour,
		},
		"a token without an expiry gets one": {
			facts: facts("token", old), want: map[string]string{"token": old, "expiresAt": at(month + spread)},
			next: month + spread,
		},
		"a token older than its lifetime gets a short expiry": {
			facts: facts("token", old), edit: func(f *registration.Facts) {
				f.Registration.CreationTimestamp = metav1.NewTime(noon.Add(-2 * month))
			},
			want: map[string]string{"token": old, "expiresAt": at(spread)}, next: spread,
		},
		"an unreadable time counts as missing": {
			facts: facts("token", old, "expiresAt", "tomorrow"),
			want:  map[string]string{"token": old, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"tokens never expire": {
			facts: facts("token", old, "expiresAt", at(0)), edit: func(f *registration.Facts) { f.Settings.TTL = -1 },
			want: map[string]string{"token": old},
		},
		"this token never expires": {
			facts: facts("token", old, "expiresAt", at(0)), edit: func(f *registration.Facts) {
				f.Registration.Spec.TTL = new(int64(0))
			},
			want: map[string]string{"token": old},
		},
		"the previous token expires although tokens never expire": {
			facts: facts("token", "new", "previousToken", old, "gracePeriodExpiresAt",
				at(0)), edit: func(f *registration.Facts) { f.Settings.TTL = -1 },
			want: map[string]string{"token": "new"},
		},
		"the lifetime is an hour, and the token is replaced": {
			facts: facts("token", old, "expiresAt", at(0)), edit: func(f *registration.Facts) {
				f.Registration.Spec.TTL = new(int64(60))
			}, event: registration.Replaced,
			want: map[string]string{"token": fresh, "previousToken": old, "expiresAt": at(time.Hour),
				"gracePeriodExpiresAt": at(48 * time.Minute)}, next: 48 * time.Minute,
		},
		"a minute is too short": {
			facts: facts("token", old, "expiresAt", at(0)), event: registration.Replaced,
			edit: func(f *registration.Facts) {
				f.Registration.Spec.TTL, f.Registration.Spec.GracePeriod = new(int64(1)), new(int64(1))
			},
			want: map[string]string{"token": fresh, "previousToken": old, "expiresAt": at(30 * time.Minute),
				"gracePeriodExpiresAt": at(10 * time.Minute)}, next: 10 * time.Minute,
		},
		"too many minutes": {
			facts: facts("token", old, "expiresAt", at(time.Hour)), edit: func(f *registration.Facts) {
				f.Registration.Spec.TTL = new(int64(1) << 62)
			}, next: time.Hour,
		},
		"an agent's token is kept while agents cannot learn the next one": {
			facts: facts(), edit: func(f *registration.Facts) {
				f.Registration.Labels[mgmtv3.TokenPurposeLabel] = mgmtv3.TokenPurposeAgent
			}, event: registration.Made,
			want: map[string]string{"token": fresh},
		},
		"agents learn the next token": {
			facts: facts(), event: registration.Made,
			edit: func(f *registration.Facts) {
				f.Registration.Labels[mgmtv3.TokenPurposeLabel], f.Settings.AgentsFollow = mgmtv3.TokenPurposeAgent,
					true
			},
			want: map[string]string{"token": fresh, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"the previous token is kept until an agent uses the new one": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(48*time.Hour), "gracePeriodExpiresAt",
				at(0)), edit: agentsFollow,
			want: map[string]string{"token": "new", "previousToken": old, "expiresAt": at(48 * time.Hour),
				"gracePeriodExpiresAt": at(24 * time.Hour)}, next: 24 * time.Hour,
		},
		"no third token is created before that": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(0), "gracePeriodExpiresAt", at(0)),
			edit:  agentsFollow,
			want: map[string]string{"token": "new", "previousToken": old, "expiresAt": at(24 * time.Hour),
				"gracePeriodExpiresAt": at(24 * time.Hour)}, next: 24 * time.Hour,
		},
		"an agent uses the new token": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(time.Hour), "gracePeriodExpiresAt",
				at(0)),
			edit: func(f *registration.Facts) {
				agentsFollow(f)
				f.Secret = registration.Followed(f.Secret, "new")
			},
			want: map[string]string{"token": "new", "expiresAt": at(time.Hour)}, next: time.Hour,
		},
		"earlier use of the previous token does not count": {
			facts: facts("token", old, "previousToken", "older", "expiresAt", at(time.Hour), "gracePeriodExpiresAt",
				at(0)),
			edit: func(f *registration.Facts) {
				agentsFollow(f)
				f.Secret = registration.Followed(f.Secret, old)
				f.Secret.Data["token"], f.Secret.Data["previousToken"] = []byte("new"), []byte(old)
			},
			want: map[string]string{"token": "new", "previousToken": old, "expiresAt": at(time.Hour),
				"gracePeriodExpiresAt": at(24 * time.Hour)}, next: time.Hour,
		},
		"the requested lifetime is used": {
			facts: facts("token", "new", "previousToken", old, "expiresAt", at(time.Hour), "gracePeriodExpiresAt",
				at(0)),
			edit: func(f *registration.Facts) {
				agentsFollow(f)
				f.Registration.Spec.TTL = new(int64(60))
			},
			want: map[string]string{"token": "new", "expiresAt": at(time.Hour)}, next: time.Hour,
		},
		"a token for agents and hosts is kept, too": {
			facts: facts(), edit: func(
				f *registration.Facts) {
				f.Registration.Labels = nil
			}, event: registration.Made, want: map[string]string{"token": fresh},
		},
		"a token in an old status moves to the Secret": {
			facts: facts(), edit: func(
				f *registration.Facts) {
				f.Registration.Status.Token = old
			}, event: registration.Made,
			want: map[string]string{"token": old, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"the agent's token from another management cluster is the first token": {
			facts: facts(), edit: func(f *registration.Facts) { f.Brought = old }, event: registration.Made,
			want: map[string]string{"token": old, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"the agent's earlier token is not used after its revocation": {
			facts: facts(), edit: func(f *registration.Facts) {
				f.Brought, f.Registration.Status.TokenSecretName = old, "crt-token-default-token"
			}, event: registration.Made, want: map[string]string{"token": fresh, "expiresAt": at(month + spread)},
			next: month + spread,
		},
		"an earlier token that is too weak is not used": {
			facts: facts(), edit: func(f *registration.Facts) { f.Brought = "hunter2" }, event: registration.Made,
			want: map[string]string{"token": fresh, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"a weak token is not moved": {
			facts: facts(), edit: func(
				f *registration.Facts) {
				f.Registration.Status.Token = "hunter2"
			}, event: registration.Made,
			want: map[string]string{"token": fresh, "expiresAt": at(month + spread)}, next: month + spread,
		},
		"a user removed the token from the Secret": {
			facts: facts("note",
				"keep"), edit: func(f *registration.Facts) { f.Registration.Status.Token = old },
			event: registration.Made,
			want:  map[string]string{"token": fresh, "note": "keep", "expiresAt": at(month + spread)}, next: month +
				spread,
		},
		"other keys are kept": {
			facts: facts("token", old, "note", "keep", "expiresAt", at(0)), event: registration.Replaced,
			want: map[string]string{"token": fresh, "note": "keep", "previousToken": old, "expiresAt": at(month),
				"gracePeriodExpiresAt": at(3 * time.Hour)}, next: 3 * time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.edit != nil {
				tc.edit(tc.facts)
				if tc.facts.Secret != nil {
					tc.facts.Secret.Labels = tc.facts.Registration.Labels
				}
			}
			d := registration.Decide(*tc.facts)
			if diff := cmp.Diff(tc.want, data(d)); diff != "" || d.Event != tc.event {
				t.Errorf("event %q, Secret (-want +got):\n%s", d.Event, diff)
			}
			var want time.Time
			if tc.next != 0 {
				want = noon.Add(tc.next)
			}
			if !d.Next.Equal(want) {
				t.Errorf("looks again after %v, want %v", d.Next.Sub(noon), tc.next)
			}
			if d.Status.Token != "" {
				t.Error("the status contains a token")
			}
		})
	}
}

// TestDecide_ShorterLifetimes checks that a token's remaining time shrinks when the user shortens its lifetime.
func TestDecide_ShorterLifetimes(t *testing.T) {
	t.Parallel()
	f := facts("token", old, "expiresAt", at(registration.DefaultTTL))
	f.Registration.Spec.TTL = new(int64(60))
	d := registration.Decide(*f)
	if left := d.Next.Sub(noon); left < time.Hour || left >= 66*time.Minute {
		t.Errorf("it has %v left", left)
	}
	f.Secret = d.Secret
	if again := registration.Decide(*f); again.Secret != nil {
		t.Error("it is written again")
	}
}

func TestDecide_SecretNamesItsOwner(t *testing.T) {
	t.Parallel()
	f := facts()
	made := registration.Decide(*f).Secret
	want := secret(f)
	want.Data = made.Data
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	for name, edit := range map[string]func(*corev1.Secret){
		"it was moved with its registration": func(s *corev1.Secret) { s.OwnerReferences[0].UID = "the-former-one" },
		"it has no owner":                    func(s *corev1.Secret) { s.OwnerReferences = nil },
		"it has another purpose": func(s *corev1.Secret) {
			s.Labels[mgmtv3.TokenPurposeLabel] = mgmtv3.TokenPurposeAgent
		},
		"it has no purpose": func(s *corev1.Secret) { s.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			broken := *f
			broken.Secret = made.DeepCopy()
			edit(broken.Secret)
			before := broken.Secret.DeepCopy()
			repaired := registration.Decide(broken).Secret
			if diff := cmp.Diff(made, repaired); diff != "" {
				t.Errorf("Secret (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, broken.Secret); diff != "" {
				t.Errorf("the cached object was changed:\n%s", diff)
			}
		})
	}
	f.Registration.Labels, f.Secret = nil, made.DeepCopy()
	if _, says := registration.Decide(*f).Secret.Labels[mgmtv3.TokenPurposeLabel]; says {
		t.Error("the purpose was removed only from the registration")
	}
}

func TestDecide_Commands(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Settings.ServerURL = "https://drover.example.com"
	f.Settings.CAChecksum, f.Settings.InstallScriptSHA256 = "c0ffee", "5c41b7"
	f.Environment = []corev1.EnvVar{
		{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "ODD", Value: "a\"b$(c)`d`\\"},
		{Name: "no name;", Value: "x"},
		{Name: "ELSEWHERE", ValueFrom: &corev1.EnvVarSource{}},
	}
	const environment = `HTTPS_PROXY="http://proxy:3128" ODD="a\"b\$(c)\` + "`d\\`" + `\\" `
	node := func(flag, shell, environment, rest string) string {
		return environment + "curl " + flag + "-fL https://drover.example.com/system-agent-install.sh | sudo " +
			environment +
			shell + " --server https://drover.example.com --label 'cattle.io/os=linux' --token {token}" + rest
	}
	trusting := func(environment, rest string) string { return node("", "sh -s -", environment, rest) }
	pinned := func(environment, rest string) string {
		return node("--insecure ", `sh -c 'f=$(mktemp) && trap "rm -f $f" EXIT && cat >"$f" && { echo "5c41b7  $f" | `+
			`sha256sum -c - || { echo "The script has changed: get a new command." >&2; exit 1; }; } && `+
			`sh "$f" "$@"' sh`, environment, rest)
	}
	want := mgmtv3.ClusterRegistrationTokenStatus{
		TokenSecretName: "crt-token-default-token", NodeCommand: trusting(environment, " --ca-checksum c0ffee"),
		InsecureNodeCommand: pinned(environment, " --ca-checksum c0ffee"),
	}
	status := func() mgmtv3.ClusterRegistrationTokenStatus {
		got := registration.Decide(*f).Status
		got.ExpiresAt = ""
		return got
	}
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("for hosts (-want +got):\n%s", diff)
	}
	f.Registration.Labels[mgmtv3.TokenPurposeLabel] = mgmtv3.TokenPurposeAgent
	want = mgmtv3.ClusterRegistrationTokenStatus{
		TokenSecretName: "crt-token-default-token",
		ManifestURL:     "https://drover.example.com/v3/import/{token}_c-m-1.yaml",
		Command:         "kubectl apply -f https://drover.example.com/v3/import/{token}_c-m-1.yaml",
		InsecureCommand: "curl --insecure -sfL https://drover.example.com/v3/import/{token}_c-m-1.yaml | kubectl " +
			"apply -f -",
	}
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("for agents (-want +got):\n%s", diff)
	}
	f.Registration.Labels, f.Environment, f.Settings.CAChecksum = nil, nil, ""
	want.NodeCommand, want.InsecureNodeCommand = trusting("", ""), pinned("", "")
	if diff := cmp.Diff(want, status()); diff != "" {
		t.Errorf("for both (-want +got):\n%s", diff)
	}
	limited, digest := f.Registration, f.Settings.InstallScriptSHA256
	f.Registration = limited.DeepCopy()
	f.Registration.Spec.Roles = []string{mgmtv3.HostRoleEtcd, mgmtv3.HostRoleControlPlane}
	f.Settings.InstallScriptSHA256 = ""
	if diff := cmp.Diff(mgmtv3.ClusterRegistrationTokenStatus{TokenSecretName: "crt-token-default-token",
		NodeCommand: trusting("", " --etcd --controlplane")}, status()); diff != "" {
		t.Errorf("for hosts with these roles, and an unknown script (-want +got):\n%s", diff)
	}
	f.Registration, f.Settings.InstallScriptSHA256 = limited, digest
	if got := registration.PinnedScript(want.InsecureNodeCommand); got != "5c41b7" {
		t.Errorf("the digest in the insecure command is %q", got)
	}
	if got := registration.PinnedScript(want.NodeCommand); got != "" {
		t.Errorf("the digest in the other command is %q", got)
	}
	f.Settings.ServerURL = ""
	if diff := cmp.Diff(mgmtv3.ClusterRegistrationTokenStatus{TokenSecretName: "crt-token-default-token"},
		status()); diff != "" {
		t.Errorf("without an address (-want +got):\n%s", diff)
	}
	f.Registration.Labels = map[string]string{mgmtv3.TokenPurposeLabel: "agnet"}
	f.Settings.ServerURL = "https://drover.example.com"
	if diff := cmp.Diff(mgmtv3.ClusterRegistrationTokenStatus{TokenSecretName: "crt-token-default-token"},
		status()); diff != "" {
		t.Errorf("without a purpose (-want +got):\n%s", diff)
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	label := func(purpose string) map[string]string { return map[string]string{mgmtv3.TokenPurposeLabel: purpose} }
	for name, tc := range map[string]struct {
		labels      map[string]string
		agent, node bool
	}{
		"no label":                {nil, true, true},
		"for agents":              {label("agent"), true, false},
		"for hosts":               {label("node"), false, true},
		"without a purpose":       {label("agnet"), false, false},
		"with an unknown purpose": {label(""), false, false},
	} {
		if registration.Serves(tc.labels, registration.ForAgent) != tc.agent ||
			registration.Serves(tc.labels, registration.ForNode) != tc.node {
			t.Errorf("%s: agent %v, node %v", name, !tc.agent, !tc.node)
		}
		if !registration.Serves(tc.labels, registration.Any) {
			t.Errorf("%s: proves nothing", name)
		}
	}
}

// TestDecide_Invariants checks any content of a Secret at any time. A decision settles at once, at least one token is
// always valid, and the previous token stays valid for the promised grace period.
func TestDecide_Invariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		when := rapid.Custom(func(r *rapid.T) string {
			if rapid.Bool().Draw(r, "readable") {
				return at(time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(r, "seconds")) * time.Second)
			}
			return rapid.SampledFrom([]string{"", "x", "2026-13-01T00:00:00Z"}).Draw(r, "broken")
		})
		token := rapid.SampledFrom([]string{"", old, "another"})
		f := facts("token", token.Draw(r, "token"), "previousToken", token.Draw(r, "previous"), "expiresAt",
			when.Draw(r, "expires"), "gracePeriodExpiresAt", when.Draw(r, "grace"))
		if rapid.Bool().Draw(r, "no secret") {
			f.Secret = nil
		}
		if rapid.Bool().Draw(r, "own ttl") {
			f.Registration.Spec.TTL = new(rapid.Int64().Draw(r, "ttl"))
		}
		if rapid.Bool().Draw(r, "own grace") {
			f.Registration.Spec.GracePeriod = new(rapid.Int64().Draw(r, "grace period"))
		}
		before := registration.Read(f.Secret).Accepted(noon)
		d := registration.Decide(*f)
		if d.Secret != nil {
			f.Secret = d.Secret
		}
		after := registration.Read(f.Secret).Accepted(noon)
		if len(after) == 0 || len(before) > 0 && !strings.Contains(strings.Join(after, " "), before[0]) {
			r.Fatalf("%d tokens were valid, and now %d others are", len(before), len(after))
		}
		if !d.Next.IsZero() && !d.Next.After(noon) {
			r.Fatalf("checks again %v ago", noon.Sub(d.Next))
		}
		f.Fresh = "yet another"
		again := registration.Decide(*f)
		if diff := cmp.Diff(d.Status, again.Status); again.Secret != nil || diff != "" {
			r.Fatalf("does not settle: %s", diff)
		}
	})
}

func TestContent_IsMasked(t *testing.T) {
	t.Parallel()
	if text := registration.Read(secret(facts(), "token", old)).String(); strings.Contains(text, old) {
		t.Error(text)
	}
}
