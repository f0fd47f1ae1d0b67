package edit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/operate/edit"
)

const (
	clusterText = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  labels:
    example.com/team: a
spec:
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools:
    - name: servers
      quantity: 1
    - name: workers
      quantity: 2
      labels: {a.b/c: d}
`
	configText = `apiVersion: rke-machine-config.cattle.io/v1
kind: PodConfig
metadata:
  name: demo-all
size: large
`
)

// edited returns the cluster's text with one replaced part.
func edited(old, changed string) string { return strings.Replace(clusterText, old, changed, 1) }

func TestParseText_Problems(t *testing.T) {
	invalid := func(at, why string) string { return at + " the YAML is not valid: " + why }
	const separated = configText + "---\n"
	for name, tc := range map[string]struct{ text, want string }{
		"a Cluster":                 {clusterText, ""},
		"a Cluster behind a config": {separated + clusterText, ""},
		"separators and comments":   {"# c\n---\n--- # c\n" + clusterText + "---\n", ""},
		"lines of Windows":          {strings.ReplaceAll(separated+clusterText, "\n", "\r\n"), ""},
		"nothing":                   {"", "1:0 the text has no Cluster of provisioning.cattle.io/v1"},
		"only a config":             {configText, "1:0 the text has no Cluster of provisioning.cattle.io/v1"},
		"a word":                    {"x", "1:1 the document is no object"},
		"two Clusters": {clusterText + "---\n" + clusterText,
			"17:1 the text has several Clusters; use one text for each"},
		"a config twice": {separated + separated + clusterText, "7:1 the text has PodConfig demo-all twice"},
		"an unknown field": {edited("quantity: 2", "size: 2"),
			"14:7 spec.rkeConfig.machinePools[1].size: a Cluster has no such field"},
		"a kind that leads elsewhere": {strings.Replace(separated, "PodConfig", "../secrets", 1) + clusterText,
			"2:1 kind: must be the kind of a machine config"},
		"a label that is no text": {edited("team: a", "team: a\n    number: 1"),
			"7:5 metadata.labels[number]: must be a text; put the value in quotes"},
		"an annotation of a config that is no text": {strings.Replace(separated, "  name: demo-all",
			"  name: demo-all\n  annotations: {drover.io/protect: true}", 1) + clusterText,
			"5:17 metadata.annotations[drover.io/protect]: must be a text; put the value in quotes"},
		"an annotation without a value": {edited("  labels:", "  annotations:\n    a:\n  labels:"),
			"6:5 metadata.annotations[a]: must be a text; put the value in quotes"},
		"no labels": {edited("  labels:\n    example.com/team: a", "  annotations: [a]"),
			"5:3 metadata.annotations: must be keys with texts"},
		"an unknown field behind a config": {separated + edited("  rkeConfig:", "  color: red\n  rkeConfig:"),
			"15:3 spec.color: a Cluster has no such field"},
		"two unknown fields": {edited("quantity: 1", "a: 1\n      b: 1"),
			"12:7 spec.rkeConfig.machinePools[0].a: a Cluster " +
				"has no such field\n13:7 spec.rkeConfig.machinePools[0].b: a Cluster has no such field"},
		"a repeated field": {edited("quantity: 2", "name: x"),
			"14:7 spec.rkeConfig.machinePools[1].name: the field is there twice"},
		"a field twice": {edited("      quantity: 2\n", "      quantity: 2\n      quantity: 3\n"),
			"15:7 spec.rkeConfig.machinePools[1].quantity: the field is there twice"},
		"broken indentation": {edited("  rkeConfig:", " rkeConfig:"), invalid("9:0", "did not find expected key")},
		"a tab": {separated + edited("  name: demo", "\tname: demo"), invalid("10:0",
			"found character that cannot start any token")},
		"an open bracket": {edited("{a.b/c: d}", "{a.b/c: d"), invalid("15:0", "did not find expected ',' or '}'")},
		"an open quote": {edited("v1.36.2+k3s1", `"v1.36.2+k3s1`), invalid("8:0",
			"found unexpected end of stream")},
		"an unknown alias": {edited("v1.36.2+k3s1", "*version"), invalid("8:0",
			"unknown anchor 'version' referenced")},
		"a mistake behind a list over several lines": {edited("{a.b/c: d}", "{\n        a: b,\n        c: d}\n  x"),
			invalid("18:0", "could not find expected ':'")},
	} {
		_, found := edit.ParseText([]byte(tc.text))
		if diff := cmp.Diff(tc.want, problems(found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestText_CheckNames(t *testing.T) {
	text := configText + "---\n" + edited("  name: demo\n", "  name: other\n  namespace: team-b\n") + "---\n" +
		strings.Replace(configText, "  name: demo-all", "  namespace: team-a", 1)
	parsed, found := edit.ParseText([]byte(text))
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := "11:3 metadata.namespace: must be team-a\n26:1 metadata.name: must be a valid name of an object"
	if diff := cmp.Diff(want, problems(parsed.CheckNames("team-a", "demo"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	parsed, _ = edit.ParseText([]byte(edited("name: demo", "name: other")))
	if got := problems(parsed.CheckNames("team-a", "demo")); got != "4:3 metadata.name: must be demo" {
		t.Errorf("got %s", got)
	}
}

func TestText_Locate(t *testing.T) {
	text, _ := edit.ParseText([]byte(configText + "---\n" + clusterText))
	for field, want := range map[string]string{
		"":                                      "7:1",
		"spec":                                  "13:1",
		"spec.kubernetesVersion":                "14:3",
		"spec.rkeConfig.machinePools[1]":        "19:7",
		"spec.rkeConfig.machinePools[workers]":  "19:7",
		"spec.rkeConfig.machinePools[1].name":   "19:7",
		"spec.rkeConfig.machinePools[0].labels": "17:7",
		"spec.rkeConfig.machinePools[1].labels[a.b/c]": "21:16",
		"spec.rkeConfig.machinePools[1].labels.a.b/c":  "21:16",
		"spec.rkeConfig.machinePools[7].name":          "16:5",
		"spec.rkeConfig.machinePools[gpu].quantity":    "16:5",
		"metadata.labels[example.com/team]":            "12:5",
		`metadata.labels["example.com/team"]`:          "12:5",
		"metadata.annotations[x]":                      "9:1",
		"spec.cloudCredentialSecretName":               "13:1",
		"spec..[.":                                     "13:1",
		"elsewhere":                                    "7:1",
	} {
		got := problems(text.Locate(text.Cluster(), []edit.Problem{{Field: field, Message: "m"}}))
		if at, _, _ := strings.Cut(got, " "); at != want {
			t.Errorf("%s is at %s, want %s", field, at, want)
		}
	}
	got := problems(text.Locate(text.Configs()[0], []edit.Problem{{Field: "size", Message: "unknown field"}}))
	if want := "5:1 size: PodConfig demo-all: unknown field"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	aliased, _ := edit.ParseText([]byte(edited("- name: servers", "- &p\n      name: servers") + "    - *p\n"))
	if got := problems(aliased.Locate(aliased.Cluster(),
		[]edit.Problem{{Field: "spec.rkeConfig.machinePools[2].quantity",
			Message: "m"}})); !strings.HasPrefix(got, "13:7 ") {
		t.Errorf("a field of an alias is at %s", got)
	}
}

func TestText_Notes(t *testing.T) {
	text, found := edit.ParseText([]byte(edited("  name: demo\n", "  name: demo\n  finalizers: [a]\n"+
		"  creationTimestamp: null\n") + "status: {}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"))
	want := []string{"status, metadata.finalizers of Cluster demo: programs write this, and a change of it has no " +
		"effect"}
	if diff := cmp.Diff(want, text.Notes()); diff != "" || len(found) > 0 {
		t.Errorf("%v (-want +got):\n%s", found, diff)
	}
	if diff := cmp.Diff([]string{"Secret /s"}, text.Ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
