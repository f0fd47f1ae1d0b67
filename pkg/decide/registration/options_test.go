package registration

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptions_AreCheckedLikeAHost(t *testing.T) {
	t.Parallel()
	all := []string{"etcd", "controlplane", "worker"}
	for name, tc := range map[string]struct {
		options Options
		want    []string
	}{
		"the least": {Options{Roles: []string{"worker"}}, nil},
		"everything": {Options{Roles: all, Labels: []string{"a=b", "example.com/c="}, Taints: []string{"k=v:NoSchedule",
			"k:NoExecute"}, Address: "10.0.0.1,fd00::1", InternalAddress: "eth0.100", NodeName: "Node-1"}, nil},
		"a keyword":       {Options{Roles: all, Address: "awspublic"}, nil},
		"no role":         {Options{}, []string{"roles"}},
		"an unknown role": {Options{Roles: []string{"etcd", "master"}}, []string{"roles"}},
		"no label": {Options{Roles: all, Labels: []string{"a=b", "x", "c=d", "e=f g"}},
			[]string{"labels[1]", "labels[3]"}},
		"a reserved label":  {Options{Roles: all, Labels: []string{"rke.cattle.io/x=y"}}, []string{"labels[0]"}},
		"a list in a label": {Options{Roles: all, Labels: []string{"a=b,c=d", ""}}, []string{"labels[0]", "labels[1]"}},
		"no taint": {Options{Roles: all, Taints: []string{"k=v", "k=v:Never"}},
			[]string{"taints[0]", "taints[1]"}},
		"a taint twice": {Options{Roles: all, Taints: []string{"k=v:NoSchedule", "k=w:NoSchedule"}},
			[]string{"taints[1]"}},
		"no addresses": {Options{Roles: all, Address: "1.2.3", InternalAddress: "a b"},
			[]string{"address", "internalAddress"}},
		"interfaces":      {Options{Roles: all, Address: "eth0,eth1"}, []string{"address"}},
		"a command":       {Options{Roles: all, Address: "$(id)", NodeName: "`id`"}, []string{"address", "nodeName"}},
		"an address zone": {Options{Roles: all, Address: "fe80::1%eth0"}, []string{"address"}},
	} {
		var fields []string
		for _, mistake := range tc.options.Mistakes() {
			fields = append(fields, mistake.Field)
			if mistake.Message == "" {
				t.Errorf("%s: %s has no message", name, mistake.Field)
			}
		}
		if diff := cmp.Diff(tc.want, fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOptions_AreArgumentsOfTheScript(t *testing.T) {
	t.Parallel()
	got := Options{Roles: []string{"worker", "etcd"}, Labels: []string{"a=b"}, Taints: []string{"k:NoExecute"},
		Address: "10.0.0.1, 10.0.0.2", InternalAddress: "eth0", NodeName: "N1"}.Arguments()
	want := "--etcd --worker --node-name n1 --address 10.0.0.1,10.0.0.2 --internal-address eth0 --label 'a=b' " +
		"--taint k:NoExecute"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	script, all := usage(t), Options{Roles: hostRoles(), Labels: []string{"a=b"}, Taints: []string{"k:NoExecute"},
		Address: "a", InternalAddress: "b", NodeName: "c"}
	for word := range strings.FieldsSeq(all.Arguments()) {
		if strings.HasPrefix(word, "--") && !strings.Contains(script, word+")") &&
			!strings.Contains(script, word+" | ") {
			t.Errorf("the script has no flag %s", word)
		}
	}
	for text, want := range map[string]string{"a b": "'a b'", "it's": `'it'\''s'`, "$(id)": "'$(id)'",
		"a-b_c": "a-b_c"} {
		if got := quoted(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// usage is the install script, which reads the flags.
func usage(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../../reach/connect/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
