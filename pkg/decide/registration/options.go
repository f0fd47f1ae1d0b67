package registration

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are what a user adds to the command that registers a host.
type Options struct {
	// Roles are etcd, controlplane and worker.
	Roles []string
	// Labels are KEY=VALUE, and Taints KEY=VALUE:EFFECT or KEY:EFFECT.
	Labels, Taints []string
	// Address and InternalAddress are IP addresses, names of interfaces, or keywords of clouds.
	Address, InternalAddress string
	NodeName                 string
}

// Mistake is an option that the install script or the server would refuse.
type Mistake struct {
	// Field is the option, such as labels[0].
	Field   string
	Message string
}

// hostRoles are the roles in the order of the flags.
func hostRoles() []string { return []string{"etcd", "controlplane", "worker"} }

// Pieces returns the parts of comma-separated lists, without empty ones.
func Pieces(lists []string) []string { return pieces(lists) }

// Mistakes checks the options as the server checks a host.
func (o Options) Mistakes() []Mistake {
	var out []Mistake
	if len(o.Roles) == 0 {
		out = append(out, Mistake{"roles", "a role is missing: etcd, controlplane or worker"})
	}
	for _, role := range o.Roles {
		if !slices.Contains(hostRoles(), role) {
			out = append(out, Mistake{"roles", fmt.Sprintf("role %q must be etcd, controlplane or worker",
				short(role))})
		}
	}
	out = append(out, mistakesIn("labels", o.Labels, func(list []string) error {
		_, err := parseLabels(list)
		return err
	})...)
	out = append(out, mistakesIn("taints", o.Taints, func(list []string) error {
		_, err := parseTaints(list)
		return err
	})...)
	for field, list := range map[string]string{"address": o.Address, "internalAddress": o.InternalAddress} {
		if wrong := wrongAddress(list); wrong != "" {
			out = append(out, Mistake{field, fmt.Sprintf("%q must be an IP address, the name of an interface, or a "+
				"keyword of a cloud; a list may have IP addresses only", short(wrong))})
		}
	}
	if err := checkNodeName(strings.ToLower(o.NodeName)); err != nil {
		out = append(out, Mistake{"nodeName", err.Error()})
	}
	slices.SortStableFunc(out, func(a, b Mistake) int { return strings.Compare(a.Field, b.Field) })
	return out
}

// mistakesIn checks each entry of a list together with the correct ones before it.
func mistakesIn(field string, list []string, check func([]string) error) []Mistake {
	var out []Mistake
	var good []string
	for i, entry := range list {
		err := check(append(slices.Clone(good), entry))
		switch {
		case len(pieces([]string{entry})) != 1:
			out = append(out, Mistake{fmt.Sprintf("%s[%d]", field, i), "the entry is empty or a list"})
		case err != nil:
			out = append(out, Mistake{fmt.Sprintf("%s[%d]", field, i), err.Error()})
		default:
			good = append(good, entry)
		}
	}
	return out
}

var (
	// interfaceName matches names of interfaces and keywords of clouds.
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,31}$`)
	// likeAddress matches mistyped IP addresses.
	likeAddress = regexp.MustCompile(`^[0-9.]+$`)
)

// wrongAddress returns the first part of a list that is no address, empty if there is none. The install script replaces
// a single name of an interface with its address.
func wrongAddress(list string) string {
	all := pieces([]string{list})
	for _, text := range all {
		parsed, err := netip.ParseAddr(text)
		isName := len(all) == 1 && interfaceName.MatchString(text) && !likeAddress.MatchString(text)
		if err == nil && parsed.Zone() != "" || err != nil && !isName {
			return text
		}
	}
	return ""
}

// checkNodeName checks the name of a node in lower case. Empty means the host's name.
func checkNodeName(name string) error {
	if name != "" && (len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsValidLabelValue(name)) > 0) {
		return fmt.Errorf("--node-name %q must be at most 63 lower-case letters, digits, dots and dashes, and begin "+
			"and end with a letter or digit", short(name))
	}
	return nil
}

// Arguments are the options as arguments of the install script. They follow a command of a token's Secret, and are
// quoted for a shell.
func (o Options) Arguments() string {
	var out []string
	for _, role := range hostRoles() {
		if slices.Contains(o.Roles, role) {
			out = append(out, "--"+role)
		}
	}
	add := func(flag, value string) {
		if value = strings.TrimSpace(value); value != "" {
			out = append(out, flag, quoted(value))
		}
	}
	add("--node-name", strings.ToLower(o.NodeName))
	add("--address", strings.Join(pieces([]string{o.Address}), ","))
	add("--internal-address", strings.Join(pieces([]string{o.InternalAddress}), ","))
	for _, label := range o.Labels {
		add("--label", label)
	}
	for _, taint := range o.Taints {
		add("--taint", taint)
	}
	return strings.Join(out, " ")
}

// plainWord matches texts that a shell takes literally.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.,:/@%+-]+$`)

// quoted quotes a text for a shell.
func quoted(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
