package rights

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// File is the chart's file with the rules of its roles, relative to the root of the repository.
const File = "charts/drover/files/rights.yaml"

// The roles of the chart, as the file names them.
const (
	// Own is the ClusterRole of Drover's controllers and endpoints.
	Own = "drover"
	// System is the Role of the same service account in SystemNamespace.
	System = "drover-system"
	// Core is the ClusterRole of Cluster API's core that runs in Drover.
	Core = "cluster-api"
)

// SystemNamespace is the namespace in which Drover is installed.
const SystemNamespace = "drover-system"

// Conditions of rules. The chart's template decides when they hold.
const (
	// WhenDefinitions holds where the server installs CRDs of Drover or of Cluster API.
	WhenDefinitions = "definitions"
	// WhenAdmission holds where the API server calls Drover's webhooks.
	WhenAdmission = "admission"
)

var (
	roles = []string{Own, System, Core}
	verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind"}
)

// head has verbs for System and SystemNamespace.
const head = `# The rules of the roles of Drover's service account. %s is the Role in namespace %s, the others are
# ClusterRoles. Generated, do not edit. The verbs are those of the requests in tests, on a real API server and in
# memory, and of a list of exceptions (tests/contract/leastprivilege/exceptions_test.go). The purposes are in
# pkg/testkit/rights/purposes.go.
# With programs in bin/ (make build),
#   go -C tests test -count=1 ./contract/leastprivilege            compares this file with the requests
#   go -C tests test -count=1 ./contract/leastprivilege -update    rewrites this file
`

// Rule is a rule of a role in the file. A rule with a condition applies only where the condition holds.
type Rule struct {
	Purpose       string   `json:"purpose"`
	When          string   `json:"when,omitempty"`
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
	Verbs         []string `json:"verbs"`
}

// Rules are the rules of roles: Own, System and Core.
type Rules map[string][]Rule

// Purpose describes why a role needs some resources, and what limits the access. The tests find out which verbs are
// needed.
type Purpose struct {
	// Role is Own, System or Core.
	Role  string
	Group string
	// Resources is a list separated by blanks. "*" means all resources of the group.
	Resources string
	// Names, a list separated by blanks, limits the role to these objects if it is not empty.
	Names string
	// Verbs, a list separated by blanks, limits the purpose to these verbs if it is not empty.
	Verbs string
	// When is the condition under which the role needs the resources, or empty.
	When string
	// Text is one line for readers of the chart.
	Text string
}

// serves reports whether the purpose covers a request, and which of its resources does. Requests of Drover's own
// controllers belong to Own or System.
func (p Purpose) serves(asked Grant) (resource string, ok bool) {
	switch {
	case p.Role == System && (asked.Role != Own && asked.Role != System || asked.Namespace != SystemNamespace),
		p.Role != System && p.Role != asked.Role, p.Group != asked.Group,
		p.Names != "" && !slices.Contains(strings.Fields(p.Names), asked.Name),
		p.Verbs != "" && !slices.Contains(strings.Fields(p.Verbs), asked.Verb):
		return "", false
	case p.Resources == "*":
		return "*", true
	}
	return asked.Resource, slices.Contains(strings.Fields(p.Resources), asked.Resource)
}

// Needless returns the exceptions that do not change the rules, because requests or other exceptions already need the
// same rights.
func Needless(purposes []Purpose, asked, exceptions []Grant) ([]Grant, error) {
	all, err := Generate(purposes, slices.Concat(asked, exceptions))
	if err != nil {
		return nil, err
	}
	var out []Grant
	for i, exception := range exceptions {
		without, err := Generate(purposes, slices.Concat(asked, exceptions[:i], exceptions[i+1:]))
		if err == nil && bytes.Equal(without.YAML(), all.YAML()) { // without the exception, a purpose may cover nothing
			out = append(out, exception)
		}
	}
	return out, nil
}

// Generate returns the rules that permit the requests. Where a purpose has no names, the rules permit all objects of
// the kind. Generate tries purposes in their order. It returns an error if no purpose covers a request, or if a purpose
// covers no request.
func Generate(purposes []Purpose, asked []Grant) (Rules, error) {
	var problems []error
	needs := make([]map[string][]string, len(purposes)) // verbs of the resources of each purpose
	for _, one := range asked {
		resource, index := "", -1
		for i, purpose := range purposes {
			if found, ok := purpose.serves(one); ok {
				resource, index = found, i
				break
			}
		}
		if index < 0 || !slices.Contains(verbs, one.Verb) {
			problems = append(problems, fmt.Errorf("no purpose of role %s covers this request: %s",
				one.Role, one.Request))
			continue
		}
		if needs[index] == nil {
			needs[index] = map[string][]string{}
		}
		needs[index][resource] = append(needs[index][resource], one.Verb)
		if one.Verb == "watch" {
			// An API server that streams lists answers them with a watch. Other API servers need a list before it.
			needs[index][resource] = append(needs[index][resource], "list")
		}
	}
	out := Rules{}
	for i, purpose := range purposes {
		for resource := range strings.FieldsSeq(purpose.Resources) {
			if len(needs[i][resource]) == 0 {
				missing := Request{Verb: cmp.Or(purpose.Verbs, "use"), Group: purpose.Group, Resource: resource}
				problems = append(problems, fmt.Errorf("role %s has a purpose without a request: %s",
					purpose.Role, missing))
			}
		}
		out[purpose.Role] = append(out[purpose.Role], purpose.rules(needs[i])...)
	}
	for _, rules := range out {
		slices.SortFunc(rules, Rule.compare)
	}
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return out, errors.Join(slices.CompactFunc(problems, func(a, b error) bool { return a.Error() == b.Error() })...)
}

// rules returns one rule for all resources that need the same verbs.
func (p Purpose) rules(needs map[string][]string) []Rule {
	resources := map[string][]string{}
	for resource, used := range needs {
		used = slices.Clone(used)
		slices.SortFunc(used, func(a, b string) int {
			return cmp.Compare(slices.Index(verbs, a), slices.Index(verbs, b))
		})
		key := strings.Join(slices.Compact(used), " ")
		resources[key] = append(resources[key], resource)
	}
	var out []Rule
	for used, of := range resources {
		slices.Sort(of)
		names := strings.Fields(p.Names)
		slices.Sort(names)
		out = append(out, Rule{Purpose: p.Text, When: p.When, APIGroups: []string{p.Group}, Resources: of,
			ResourceNames: names, Verbs: strings.Fields(used)})
	}
	return out
}

// compare orders rules by group, kind and resources. The rules for subresources of a kind follow the rules for the
// kind.
func (r Rule) compare(other Rule) int {
	kind := func(r Rule) string { kind, _, _ := strings.Cut(r.Resources[0], "/"); return kind }
	return cmp.Or(slices.Compare(r.APIGroups, other.APIGroups), cmp.Compare(kind(r), kind(other)),
		slices.Compare(r.Resources, other.Resources),
		slices.Compare(r.ResourceNames, other.ResourceNames), cmp.Compare(r.When, other.When),
		slices.Compare(r.Verbs, other.Verbs))
}

// Grants lists what the rules permit, sorted, with the file's name for each role. It includes rules with conditions.
func (r Rules) Grants() []Grant {
	var out []Grant
	for _, role := range roles {
		namespace := ""
		if role == System {
			namespace = SystemNamespace
		}
		for _, rule := range r[role] {
			out = append(out, expand(role, namespace, rule.policy())...)
		}
	}
	slices.SortFunc(out, Grant.compare)
	return slices.Compact(out)
}

func (r Rule) policy() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
		Verbs: r.Verbs}
}

// YAML returns the content of the file.
func (r Rules) YAML() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, head, System, SystemNamespace)
	for _, role := range roles {
		fmt.Fprintf(&out, "%s:\n", role)
		for _, rule := range r[role] {
			fmt.Fprintf(&out, "  - purpose: %q\n", rule.Purpose)
			if rule.When != "" {
				fmt.Fprintf(&out, "    when: %s\n", rule.When)
			}
			fmt.Fprintf(&out, "    apiGroups: %s\n    resources: %s\n", flow(rule.APIGroups), flow(rule.Resources))
			if len(rule.ResourceNames) > 0 {
				fmt.Fprintf(&out, "    resourceNames: %s\n", flow(rule.ResourceNames))
			}
			fmt.Fprintf(&out, "    verbs: %s\n", flow(rule.Verbs))
		}
	}
	return out.Bytes()
}

// flow writes a list on one line. It quotes only strings that are not plain names of resources.
func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		if quoted[i] = s; s == "" || s == "*" {
			quoted[i] = `"` + s + `"`
		}
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Parse reads the content of the file.
func Parse(content []byte) (Rules, error) {
	out := Rules{}
	if err := yaml.UnmarshalStrict(content, &out); err != nil {
		return nil, err
	}
	for role := range out {
		if !slices.Contains(roles, role) {
			return nil, fmt.Errorf("there is no role %q", role)
		}
	}
	return out, nil
}

// Needs parses lines such as "get patch: secrets jobs.batch", with subresources as in Request.String. The name of an
// object follows "=".
func Needs(role, text string) ([]Grant, error) {
	var out []Grant
	for line := range strings.Lines(text) {
		used, resources, ok := strings.Cut(line, ":")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case !ok || strings.TrimSpace(used) == "" || strings.TrimSpace(resources) == "":
			return nil, fmt.Errorf("%q must be verbs, a colon and resources", strings.TrimSpace(line))
		}
		for verb := range strings.FieldsSeq(used) {
			for word := range strings.FieldsSeq(resources) {
				full, name, _ := strings.Cut(word, "=")
				resource, group, _ := strings.Cut(full, ".")
				request := Request{Verb: verb, Group: group, Resource: resource, Name: name}
				if role == System {
					request.Namespace = SystemNamespace
				}
				out = append(out, Grant{role, request})
			}
		}
	}
	return out, nil
}
