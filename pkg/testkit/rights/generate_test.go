package rights

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "rewrite the texts of the file, without a change of the permissions")

var purposes = []Purpose{
	{Role: System, Group: "coordination.k8s.io", Resources: "leases", Names: "drover", Text: "Who leads."},
	{Role: System, Group: "coordination.k8s.io", Resources: "leases", Verbs: "create", Text: "Who leads first."},
	{Role: Own, Resources: "secrets configmaps pods", Text: "What clusters are made of."},
	{Role: Own, Group: "batch", Resources: "jobs", Verbs: "update", When: WhenAdmission, Text: "Corrections."},
	{Role: Own, Group: "batch", Resources: "jobs jobs/status", Text: "Jobs."},
	{Role: Own, Group: "machines.io", Resources: "*", Text: "Machines."},
	{Role: Core, Resources: "secrets", Text: "Kubeconfigs."},
}

// needs parses the requests of roles. Tests add names and namespaces where they need them.
func needs(t *testing.T, role, text string) []Grant {
	t.Helper()
	out, err := Needs(role, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGenerate(t *testing.T) {
	in := func(namespace, name, verb, group, resource string) []Grant {
		return []Grant{{Own, Request{verb, group, resource, namespace, name}}}
	}
	for name, tt := range map[string]struct {
		purposes []Purpose
		asked    [][]Grant
		want     Rules
		problem  string
	}{
		"verbs are unique and in the usual order": {
			purposes: purposes[6:], asked: [][]Grant{needs(t, Core, "delete get: secrets"),
				needs(t, Core, "create get: secrets")},
			want: Rules{Core: {{Purpose: "Kubeconfigs.", APIGroups: []string{""}, Resources: []string{"secrets"},
				Verbs: []string{"get", "create", "delete"}}}},
		},
		"a watch needs a list": {
			purposes: purposes[6:], asked: [][]Grant{needs(t, Core, "watch: secrets")},
			want: Rules{Core: {{Purpose: "Kubeconfigs.", APIGroups: []string{""}, Resources: []string{"secrets"},
				Verbs: []string{"list", "watch"}}}},
		},
		"resources with the same verbs share a rule, others of the purpose do not": {
			purposes: purposes[2:3], asked: [][]Grant{needs(t, Own, "get: secrets configmaps\nget delete: pods")},
			want: Rules{Own: {
				{Purpose: "What clusters are made of.", APIGroups: []string{""},
					Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get"}},
				{Purpose: "What clusters are made of.", APIGroups: []string{""}, Resources: []string{"pods"},
					Verbs: []string{"get", "delete"}},
			}},
		},
		"names and namespaces are omitted, unless the purpose has them": {
			purposes: append(purposes[:2:2], purposes[6]), asked: [][]Grant{
				in(SystemNamespace, "drover", "update", "coordination.k8s.io", "leases"),
				in(SystemNamespace, "", "create", "coordination.k8s.io", "leases"),
				{{Core, Request{Verb: "get", Resource: "secrets", Namespace: "default", Name: "kubeconfig"}}},
			},
			want: Rules{
				System: {
					{Purpose: "Who leads first.", APIGroups: []string{"coordination.k8s.io"},
						Resources: []string{"leases"}, Verbs: []string{"create"}},
					{
						Purpose: "Who leads.", APIGroups: []string{"coordination.k8s.io"},
						Resources: []string{"leases"}, ResourceNames: []string{"drover"},
						Verbs: []string{"update"},
					},
				},
				Core: {{Purpose: "Kubeconfigs.", APIGroups: []string{""}, Resources: []string{"secrets"},
					Verbs: []string{"get"}}},
			},
		},
		"a purpose without a request": {
			purposes: purposes[3:5], asked: [][]Grant{needs(t, Own, "get update: jobs.batch")},
			problem: "role drover has a purpose without a request: use jobs/status.batch",
		},
		"a condition is for the verbs of its purpose, and subresources follow their kind": {
			purposes: purposes[3:5], asked: [][]Grant{needs(t, Own, "update: jobs/status.batch"),
				needs(t, Own, "get update: jobs.batch")},
			want: Rules{Own: {
				{Purpose: "Jobs.", APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get"}},
				{Purpose: "Corrections.", When: WhenAdmission, APIGroups: []string{"batch"},
					Resources: []string{"jobs"}, Verbs: []string{"update"}},
				{Purpose: "Jobs.", APIGroups: []string{"batch"}, Resources: []string{"jobs/status"},
					Verbs: []string{"update"}},
			}},
		},
		"all kinds of a group": {
			purposes: purposes[5:6],
			asked:    [][]Grant{needs(t, Own, "get: small.machines.io\nupdate: large/status.machines.io")},
			want: Rules{Own: {{Purpose: "Machines.", APIGroups: []string{"machines.io"}, Resources: []string{"*"},
				Verbs: []string{"get", "update"}}}},
		},
		"a request without a purpose": {
			purposes: purposes[6:], asked: [][]Grant{needs(t, Core, "get: secrets nodes"),
				needs(t, Core, "get: nodes")},
			problem: "no purpose of role cluster-api covers this request: get nodes",
		},
		"a request with a purpose of the other role": {
			purposes: purposes[6:], asked: [][]Grant{needs(t, Core, "get: secrets"), needs(t, Own, "get: secrets")},
			problem: "no purpose of role drover covers this request: get secrets",
		},
		"another name than those of the purpose": {
			purposes: purposes[:1],
			asked: [][]Grant{
				in(SystemNamespace, "drover", "get", "coordination.k8s.io", "leases"),
				in(SystemNamespace, "other", "get", "coordination.k8s.io", "leases"),
			},
			problem: "no purpose of role drover covers this request: get leases.coordination.k8s.io in " +
				"drover-system named other",
		},
		"a verb that roles do not have": {
			purposes: purposes[6:], asked: [][]Grant{needs(t, Core, "get take: secrets")},
			problem: "no purpose of role cluster-api covers this request: take secrets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []Grant
			for _, some := range tt.asked {
				asked = append(asked, some...)
			}
			got, err := Generate(tt.purposes, asked)
			if tt.problem != "" {
				if err == nil || err.Error() != tt.problem {
					t.Errorf("got %v, want %s", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			read, err := Parse(got.YAML())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got.YAML()), string(read.YAML())); diff != "" {
				t.Errorf("rules of the file (-want +got):\n%s", diff)
			}
		})
	}
}

// Needless returns an exception exactly when something else needs the same right.
func TestNeedless(t *testing.T) {
	for name, tt := range map[string]struct {
		asked, exceptions, want string
		problem                 string
	}{
		"a right without a request": {asked: "get: pods configmaps",
			exceptions: "delete: pods\nwatch: secrets"},
		"a right with a request": {asked: "get delete: pods configmaps",
			exceptions: "delete: pods\nwatch: secrets", want: "delete: pods"},
		"a list that a requested watch needs": {asked: "watch: pods configmaps secrets", exceptions: "list: pods",
			want: "list: pods"},
		"a duplicate exception": {asked: "get: pods configmaps secrets",
			exceptions: "delete: pods\ndelete: pods", want: "delete: pods\ndelete: pods"},
		"its purpose has no other request": {asked: "get: pods configmaps", exceptions: "get: secrets"},
		"an exception without a purpose": {asked: "get: pods configmaps secrets", exceptions: "get: nodes",
			problem: "no purpose of role drover"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Needless(purposes[2:3], needs(t, Own, tt.asked), needs(t, Own, tt.exceptions))
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Fatalf("%v, want %q", err, tt.problem)
			}
			if diff := cmp.Diff(needs(t, Own, tt.want), got); diff != "" {
				t.Errorf("needless (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFile_IsGenerated checks that the file matches the purposes. The flag -update writes the texts again.
func TestFile_IsGenerated(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, File)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Generate(Purposes, rules.Grants())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, again.YAML(), 0o644); err != nil {
			t.Fatal(err)
		}
		content = again.YAML()
	}
	if diff := cmp.Diff(string(again.YAML()), string(content)); diff != "" {
		t.Errorf("%s must be generated again (-want +got):\n%s", File, diff)
	}
	for _, purpose := range Purposes {
		if purpose.Text == "" || strings.ContainsAny(purpose.Text, "\n\"\\{") {
			t.Errorf("the purpose of %[2]s in role %[1]s must be a line of text: %[3]q", purpose.Role,
				purpose.Resources, purpose.Text)
		}
	}
}

func TestPurposes_OwnNamespaceNeedsNoClusterRole(t *testing.T) {
	var asked []Grant
	for _, verb := range []string{"get", "create", "update"} {
		asked = append(asked,
			Grant{Own, Request{Verb: verb, Resource: "configmaps", Namespace: SystemNamespace, Name: "settings"}})
	}
	got, err := Generate(Purposes, asked)
	if err == nil {
		t.Error("all other purposes are without a request")
	}
	if diff := cmp.Diff(needs(t, System, "create get update: configmaps"), got.Grants()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNeeds(t *testing.T) {
	for name, tt := range map[string]struct {
		role, text string
		want       []Grant
		problem    bool
	}{
		"nothing": {},
		"verbs for resources, line by line": {
			role: Own, text: "\n\tget patch: secrets jobs/status.batch\n\n\tdelete: *.machines.io\n",
			want: []Grant{
				{Own, Request{Verb: "get", Resource: "secrets"}},
				{Own, Request{Verb: "get", Group: "batch", Resource: "jobs/status"}},
				{Own, Request{Verb: "patch", Resource: "secrets"}},
				{Own, Request{Verb: "patch", Group: "batch", Resource: "jobs/status"}},
				{Own, Request{Verb: "delete", Group: "machines.io", Resource: "*"}},
			},
		},
		"one object by its name": {
			role: Core, text: "bind: roles.rbac.authorization.k8s.io=one",
			want: []Grant{{Core, Request{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "roles",
				Name: "one"}}},
		},
		"in Drover's own namespace": {
			role: System, text: "update: configmaps",
			want: []Grant{{System, Request{Verb: "update", Resource: "configmaps", Namespace: SystemNamespace}}},
		},
		"no colon":     {role: Own, text: "get secrets", problem: true},
		"no verbs":     {role: Own, text: ": secrets", problem: true},
		"no resources": {role: Own, text: "get:", problem: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Needs(tt.role, tt.text)
			if (err != nil) != tt.problem {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_RefusesInvalidFiles(t *testing.T) {
	for name, content := range map[string]string{
		"another role":  "other: []\n",
		"another field": "drover: [{purpose: a, resource: [b]}]\n",
		"no rules":      "drover: text\n",
	} {
		if rules, err := Parse([]byte(content)); err == nil {
			t.Errorf("%s: %v", name, rules)
		}
	}
}
