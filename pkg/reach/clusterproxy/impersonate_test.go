package clusterproxy

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"pgregory.net/rapid"
)

var (
	jane = Caller{Identity: Identity{Name: "jane", UID: "u-1",
		Groups: []string{"developers", "system:authenticated"}}}
	robot = Caller{Identity: Identity{Name: "system:serviceaccount:ci:robot", UID: "u-2",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"}}}
	root = Caller{Identity: Identity{Name: "system:admin",
		Groups: []string{"system:masters", "system:authenticated"}}}
	machine = Caller{Identity: machineIdentity(types.NamespacedName{Namespace: "fleet-default", Name: "demo"}),
		Machine: true, Cluster: "c-m-demo"}
)

func with(caller Caller, change func(*Caller)) Caller {
	caller.Groups = slices.Clone(caller.Groups)
	change(&caller)
	return caller
}

func TestDecide_ImpersonationRules(t *testing.T) {
	for name, test := range map[string]struct {
		caller     Caller
		headers    []string
		passSystem bool
		as         string   // user | UID | groups | extras
		reviews    []string // VERB GROUP/VERSION RESOURCE/SUBRESOURCE NAMESPACE/NAME
		refused    string
	}{
		"a user keeps the name": {caller: jane, as: "jane | u-1 | developers, system:authenticated |"},
		"a user without groups is authenticated": {
			caller: Caller{Identity: Identity{Name: "joe"}}, as: "joe | | system:authenticated |",
		},
		"extras are forwarded, except those of Kubernetes": {
			caller: with(jane, func(c *Caller) {
				c.Extra = map[string][]string{"example.com/Tenant": {"a", "b"},
					"authentication.kubernetes.io/node-name": {"n1"}, "k8s.io": {"x"}, "notkubernetes.io/x": {"y"}}
			}),
			as: "jane | u-1 | developers, system:authenticated | example.com/Tenant=a,b notkubernetes.io/x=y",
		},
		"a service account gets another name downstream": {
			caller: robot,
			as: "system:drover:serviceaccount:ci:robot | u-2 | system:drover:serviceaccounts, " +
				"system:drover:serviceaccounts:ci, system:authenticated |",
		},
		"an administrator here is not one downstream": {caller: root,
			as: "system:drover:user:admin | | system:authenticated |"},
		"an administrator is one downstream in one domain": {
			caller: root, passSystem: true, as: "system:admin | | system:masters, system:authenticated |",
		},
		"service accounts are distinct in one domain, too": {
			caller: robot, passSystem: true,
			as: "system:drover:serviceaccount:ci:robot | u-2 | system:drover:serviceaccounts, " +
				"system:drover:serviceaccounts:ci, system:authenticated |",
		},
		"a user cannot have the name of a machine identity": {
			caller: with(jane, func(c *Caller) {
				c.Name = "system:provisioning:fleet-default:demo"
				c.Groups = []string{AdminGroup, "system:authenticated"}
			}),
			as: "system:drover:user:provisioning:fleet-default:demo | u-1 | system:authenticated |",
		},
		"a machine identity's name in one domain": {
			caller: with(jane, func(c *Caller) {
				c.Name = "system:provisioning:fleet-default:demo"
				c.Groups = []string{AdminGroup}
			}), passSystem: true,
			as: "system:drover:user:provisioning:fleet-default:demo | u-1 | system:authenticated |",
		},
		"a user cannot have the downstream name of a service account": {
			caller: with(jane, func(c *Caller) { c.Name = "system:drover:serviceaccount:ci:robot" }),
			as:     "system:drover:user:drover:serviceaccount:ci:robot | u-1 | developers, system:authenticated |",
		},
		"groups of kubeadm belong to one cluster": {
			caller: with(jane, func(c *Caller) {
				c.Groups = append(c.Groups, "kubeadm:cluster-admins", "", "developers")
			}),
			as: "jane | u-1 | developers, system:authenticated |",
		},
		"a machine identity is forwarded unchanged": {
			caller: machine,
			as:     "system:provisioning:fleet-default:demo | | system:drover:cluster-admin, system:authenticated |",
		},
		"a user": {
			caller: jane, headers: []string{"Impersonate-User: joe"}, as: "joe | | system:authenticated |",
			reviews: []string{"impersonate / users/ /joe"},
		},
		"a user with groups, UID and extras": {
			caller: jane, headers: []string{
				"Impersonate-User: joe", "Impersonate-Group: testers", "Impersonate-Group: readers",
				"Impersonate-Uid: u-9",
				"Impersonate-Extra-example.com%2fscope: a", "Impersonate-Extra-Example.com%2FScope: b",
				"Impersonate-Extra-Plain: c",
			},
			as: "joe | u-9 | testers, readers, system:authenticated | example.com/scope=a,b plain=c",
			reviews: []string{
				"impersonate / users/ /joe", "impersonate / groups/ /testers", "impersonate / groups/ /readers",
				"impersonate authentication.k8s.io/v1 userextras/example.com/scope /a",
				"impersonate authentication.k8s.io/v1 userextras/example.com/scope /b",
				"impersonate authentication.k8s.io/v1 userextras/plain /c",
				"impersonate authentication.k8s.io/v1 uids/ /u-9",
			},
		},
		"an undecodable key is used unchanged": {
			caller: jane, headers: []string{"Impersonate-User: joe", "Impersonate-Extra-A%zz: v"},
			as:      "joe | | system:authenticated | a%zz=v",
			reviews: []string{"impersonate / users/ /joe", "impersonate authentication.k8s.io/v1 userextras/a%zz /v"},
		},
		"a service account gets its groups and downstream names": {
			caller: jane, headers: []string{"Impersonate-User: system:serviceaccount:ci:robot"},
			as: "system:drover:serviceaccount:ci:robot | | system:drover:serviceaccounts, " +
				"system:drover:serviceaccounts:ci, system:authenticated |",
			reviews: []string{"impersonate / serviceaccounts/ ci/robot"},
		},
		"a service account with groups gets no more groups": {
			caller: jane, headers: []string{"Impersonate-User: system:serviceaccount:ci:robot",
				"Impersonate-Group: testers"},
			as:      "system:drover:serviceaccount:ci:robot | | testers, system:authenticated |",
			reviews: []string{"impersonate / serviceaccounts/ ci/robot", "impersonate / groups/ /testers"},
		},
		"an invalid service account name is a user": {
			caller: jane, headers: []string{"Impersonate-User: system:serviceaccount:ci:robot:x"},
			as:      "system:drover:serviceaccount:ci:robot:x | | system:authenticated |",
			reviews: []string{"impersonate / users/ /system:serviceaccount:ci:robot:x"},
		},
		"anonymous": {
			caller: jane, headers: []string{"Impersonate-User: system:anonymous"},
			as:      "system:anonymous | | system:unauthenticated |",
			reviews: []string{"impersonate / users/ /system:anonymous"},
		},
		"an unauthenticated user": {
			caller: jane, headers: []string{"Impersonate-User: joe", "Impersonate-Group: system:unauthenticated"},
			as:      "joe | | system:unauthenticated |",
			reviews: []string{"impersonate / users/ /joe", "impersonate / groups/ /system:unauthenticated"},
		},
		"a user of Kubernetes": {
			caller: root, headers: []string{"Impersonate-User: system:kube-scheduler"},
			as:      "system:drover:user:kube-scheduler | | system:authenticated |",
			reviews: []string{"impersonate / users/ /system:kube-scheduler"},
		},
		"a machine identity": {
			caller: root, headers: []string{"Impersonate-User: system:provisioning:fleet-default:demo"},
			as:      "system:drover:user:provisioning:fleet-default:demo | | system:authenticated |",
			reviews: []string{"impersonate / users/ /system:provisioning:fleet-default:demo"},
		},
		"administrators of the cluster, by name": {
			caller: root, headers: []string{"Impersonate-User: jane", "Impersonate-Group: system:drover:cluster-admin"},
			as:      "jane | | system:drover:cluster-admin, system:authenticated |",
			reviews: []string{"impersonate / users/ /jane", "impersonate / groups/ /system:drover:cluster-admin"},
		},
		"as a machine identity": {
			caller: machine, headers: []string{"Impersonate-User: joe"}, as: "joe | | system:authenticated |",
			reviews: []string{"impersonate / users/ /joe"},
		},
		"masters": {
			caller: root, headers: []string{"Impersonate-User: joe", "Impersonate-Group: system:masters"},
			refused: `403 group "system:masters" has another meaning in the cluster, so Drover does not forward it`,
		},
		"masters in one domain": {
			caller: root, passSystem: true,
			headers: []string{"Impersonate-User: joe", "Impersonate-Group: system:masters"},
			as:      "joe | | system:masters, system:authenticated |",
			reviews: []string{"impersonate / users/ /joe", "impersonate / groups/ /system:masters"},
		},
		"extras of Kubernetes": {
			caller: root,
			headers: []string{"Impersonate-User: joe",
				"Impersonate-Extra-authentication.kubernetes.io%2fnode-name: n1"},
			refused: `403 extra "authentication.kubernetes.io/node-name" has another meaning in the cluster, so Drover does not forward it`,
		},
		"only groups": {
			caller: jane, headers: []string{"Impersonate-Group: testers"},
			refused: "400 impersonation of groups, a UID or extras needs a user: set Impersonate-User",
		},
		"only a UID": {caller: jane, headers: []string{"Impersonate-Uid: u"},
			refused: "400 impersonation of groups, a UID or extras needs a user: set Impersonate-User"},
		"only an extra, with an empty user": {caller: jane,
			headers: []string{"Impersonate-User: ", "Impersonate-Extra-A: "},
			refused: "400 impersonation of groups, a UID or extras needs a user: set Impersonate-User"},
		"an empty user": {caller: jane, headers: []string{"Impersonate-User: "},
			as: "jane | u-1 | developers, system:authenticated |"},
		"two users": {
			caller: jane, headers: []string{"Impersonate-User: joe", "Impersonate-User: root"},
			refused: "400 headers Impersonate-User and Impersonate-Uid may occur only once",
		},
		"an unknown header": {
			caller: jane, headers: []string{"Impersonate-User: joe", "Impersonate-Tenant: x"},
			refused: `400 header "Impersonate-Tenant" is unknown: use Impersonate-User, -Group, -Uid and -Extra-KEY`,
		},
		"a header without a key": {
			caller: jane, headers: []string{"Impersonate-User: joe", "Impersonate-Extra-: x"},
			refused: `400 header "Impersonate-Extra-" is unknown: use Impersonate-User, -Group, -Uid and -Extra-KEY`,
		},
		"too many groups": {
			caller: jane, headers: append([]string{"Impersonate-User: joe"},
				slices.Repeat([]string{"Impersonate-Group: g"}, 128)...),
			refused: "400 a request may impersonate at most 128 names",
		},
		"a group that a header would change": {
			caller: with(jane, func(c *Caller) {
				c.Groups = append(c.Groups, " system:masters")
			}), refused: "403 " + unfitMessage("group"),
		},
		"a name that a header would change": {
			caller: with(jane, func(c *Caller) { c.Name = "admin\u00a0" }), refused: "403 " + unfitMessage("user name"),
		},
		"a name that would end the header": {
			caller: with(jane, func(c *Caller) {
				c.Name = "jane\r\nImpersonate-Group: system:masters"
			}), refused: "403 " + unfitMessage("user name"),
		},
		"a name that is not UTF-8": {
			caller: with(jane, func(c *Caller) {
				c.Name = "jane\xff"
			}), headers: []string{"Impersonate-User: joe"}, refused: "403 " + unfitMessage("user name"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			decided, no := decide(test.caller, headersOf(test.headers), test.passSystem)
			if no != nil || test.refused != "" {
				if got := refusedAs(no); got != test.refused {
					t.Errorf("refused: got %q, want %q", got, test.refused)
				}
				return
			}
			if got := strings.TrimSpace(text(decided.As)); got != test.as {
				t.Errorf("downstream:\n got %s\nwant %s", got, test.as)
			}
			var reviews []string
			for _, r := range decided.Reviews {
				reviews = append(reviews, fmt.Sprintf("%s %s/%s %s/%s %s/%s", r.Verb, r.Group, r.Version, r.Resource,
					r.Subresource, r.Namespace, r.Name))
			}
			if diff := cmp.Diff(test.reviews, reviews); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func unfitMessage(part string) string {
	return "a header cannot contain the " + part +
		" of this user: spaces at the ends, control characters, invalid UTF-8 and empty names are not allowed"
}

func headersOf(lines []string) http.Header {
	header := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	return header
}

func refusedAs(no *refusal) string {
	if no == nil {
		return ""
	}
	return fmt.Sprintf("%d %s", no.code, no.message)
}

func text(i Identity) string {
	extras := make([]string, 0, len(i.Extra))
	for _, key := range slices.Sorted(maps.Keys(i.Extra)) {
		extras = append(extras, key+"="+strings.Join(i.Extra[key], ","))
	}
	out := strings.Join([]string{i.Name, i.UID, strings.Join(i.Groups, ", "), strings.Join(extras, " ")}, " | ")
	return strings.ReplaceAll(out, "|  |", "| |")
}

// A kube-apiserver decodes the original key of an extra from the header.
func TestEncodeKey_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Filter(func(s string) bool { return s != "" }).Draw(t, "key")
		header := Identity{Name: "jane", Extra: map[string][]string{key: {"v"}}}.headers()
		for name := range header {
			if encoded, found := strings.CutPrefix(strings.ToLower(name), "impersonate-extra-"); found {
				if read, err := url.PathUnescape(encoded); err != nil || read != key {
					t.Fatalf("%q is sent as %q and read as %q (%v)", key, name, read, err)
				}
				return
			}
		}
		t.Fatalf("%q is not sent", key)
	})
}

// Different users have different names downstream, for any names and options.
func TestNames_AreUnique(t *testing.T) {
	part := rapid.SampledFrom([]string{"system:", "drover:", "serviceaccount:", "serviceaccounts", "user:",
		"provisioning:", "masters", "anonymous", "a", ":", "fleet-default:demo"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		n := names{asked: rapid.Bool().Draw(t, "asked"), passSystem: rapid.Bool().Draw(t, "pass")}
		one, other := name.Draw(t, "one"), name.Draw(t, "other")
		if one != other && n.user(one) == n.user(other) {
			t.Fatalf("%q and %q are both %q downstream", one, other, n.user(one))
		}
		if strings.HasPrefix(n.user(one), MachineUserPrefix) {
			t.Fatalf("%q is the machine identity %q downstream", one, n.user(one))
		}
		if !n.passSystem && strings.HasPrefix(n.user(one), "system:") &&
			!strings.HasPrefix(n.user(one), "system:drover:") && n.user(one) != "system:anonymous" {
			t.Fatalf("%q is %q downstream", one, n.user(one))
		}
		if group, ok := n.group(one); ok && !n.passSystem && strings.HasPrefix(group, "system:") &&
			!harmless(group, n.asked) {
			t.Fatalf("group %q is %q downstream", one, group)
		}
	})
}

// harmless reports whether a group with a Kubernetes prefix may come from the management cluster.
func harmless(group string, asked bool) bool {
	return group == "system:authenticated" || group == "system:unauthenticated" ||
		group == "system:drover:serviceaccounts" ||
		strings.HasPrefix(group, "system:drover:serviceaccounts:") || asked && group == "system:drover:cluster-admin"
}

// Different reviews or callers have different keys.
func TestReview_HasAUniqueKey(t *testing.T) {
	type question struct {
		review review
		who    Identity
	}
	asked := map[string]question{"nothing": {}}
	for field := range reflect.TypeFor[review]().Fields() {
		var q question
		reflect.ValueOf(&q.review).Elem().FieldByIndex(field.Index).SetString("a")
		asked["a review with "+field.Name] = q
	}
	for name, who := range map[string]Identity{
		"a name": {Name: "a"}, "a UID": {UID: "a"}, "a group": {Groups: []string{"a"}},
		"two groups": {Groups: []string{"a", "b"}}, "two groups, swapped": {Groups: []string{"b", "a"}},
		"one group with both names":        {Groups: []string{"ab"}},
		"groups that look like counts":     {Groups: []string{"1:a", "b"}},
		"the same text, split elsewhere":   {Groups: []string{"1", "a1:b"}},
		"groups with a colon":              {Groups: []string{"a:b", "c"}},
		"a colon elsewhere":                {Groups: []string{"a", "b:c"}},
		"an extra":                         {Extra: map[string][]string{"a": {"b"}}},
		"another extra":                    {Extra: map[string][]string{"c": {"b"}}},
		"another value":                    {Extra: map[string][]string{"a": {"c"}}},
		"two values":                       {Extra: map[string][]string{"a": {"b", "c"}}},
		"two extras":                       {Extra: map[string][]string{"a": {"b"}, "c": nil}},
		"a group that looks like an extra": {Groups: []string{"a"}, Extra: map[string][]string{"b": nil}},
	} {
		asked["a user with "+name] = question{who: who}
	}
	for field := range reflect.TypeFor[Identity]().Fields() {
		differs := func(q question) bool { return !reflect.ValueOf(q.who).FieldByIndex(field.Index).IsZero() }
		if !slices.ContainsFunc(slices.Collect(maps.Values(asked)), differs) {
			t.Errorf("no case has an Identity with %s", field.Name)
		}
	}
	known := map[string]string{}
	for name, q := range asked {
		key := q.review.key(q.who)
		if other, taken := known[key]; taken {
			t.Errorf("%s has the key of %s: %q", name, other, key)
		}
		known[key] = name
	}
	for range 20 { // maps iterate in a different order each time
		if name := known[asked["a user with two extras"].review.key(
			Identity{Extra: map[string][]string{"c": nil, "a": {"b"}}})]; name != "a user with two extras" {
			t.Fatalf("two extras have the key of %q", name)
		}
	}
	if other := (Identity{Groups: []string{},
		Extra: map[string][]string{}}); (review{}).key(other) != (review{}).key(Identity{}) {
		t.Error("an empty value and a missing value have different keys")
	}
}

// The host may reuse its user object for another caller.
func TestIdentityOf_IsTheUsersOwn(t *testing.T) {
	said := &user.DefaultInfo{Name: "jane", Groups: []string{"a"}, Extra: map[string][]string{"k": {"v"}}}
	got := identityOf(said)
	said.Groups[0], said.Extra["k"][0], said.Extra["more"] = "b", "w", nil
	if diff := cmp.Diff(Identity{Name: "jane", Groups: []string{"a"}, Extra: map[string][]string{"k": {"v"}}},
		got); diff != "" {
		t.Error(diff)
	}
}
