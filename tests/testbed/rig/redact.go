package rig

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// hidden replaces a secret.
const hidden = "(hidden)"

// shortestSecret is the minimum length of plan values that are masked. Masking shorter values would only garble the
// output.
const shortestSecret = 6

// Names of secrets, and the forms in which programs print them.
var (
	secretName = regexp.MustCompile(`(?i)token|passw|secret|credential|auth|key(-data)?$`)
	secretPair = regexp.MustCompile(
		`(?i)([\w.-]*(?:token|passw\w*|secret|credential|key-data|authorization)[\w.-]*["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?)[^\s"',]+`)
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	assignment = regexp.MustCompile(`^(?:--)?([\w.-]+)=(.+)$`)
)

// redact masks secrets in a text that a machine reported: the secrets of its plan, and everything that looks like a
// secret.
func redact(text string, p plan.NodePlan) string {
	text = privateKey.ReplaceAllString(text, hidden)
	for _, secret := range planSecrets(p) {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return secretPair.ReplaceAllString(text, "${1}"+hidden)
}

// planSecrets returns the secret values in a plan's files, environments and arguments. The longest come first, so that
// none masks only the beginning of another.
func planSecrets(p plan.NodePlan) []string {
	found := map[string]bool{}
	note := func(value string) {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= shortestSecret && !strings.HasPrefix(line, "-----") {
				found[line] = true
			}
		}
	}
	for _, file := range p.Files {
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			continue
		}
		for _, key := range privateKey.FindAllString(string(content), -1) {
			note(key)
		}
		var tree any
		if yaml.Unmarshal(content, &tree) == nil {
			noteSecrets(tree, false, note)
		}
	}
	for _, common := range instructionsOf(p) {
		for _, word := range slices.Concat(common.Env, common.Args) {
			if pair := assignment.FindStringSubmatch(word); pair != nil && secretName.MatchString(pair[1]) {
				note(pair[2])
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int { return len(b) - len(a) })
}

// noteSecrets walks through a document and calls note for the texts below names of secrets.
func noteSecrets(node any, secret bool, note func(string)) {
	switch value := node.(type) {
	case map[string]any:
		for name, child := range value {
			noteSecrets(child, secret || secretName.MatchString(name), note)
		}
	case []any:
		for _, child := range value {
			noteSecrets(child, secret, note)
		}
	case string:
		if secret {
			note(value)
		}
	}
}

func instructionsOf(p plan.NodePlan) []plan.CommonInstruction {
	list := make([]plan.CommonInstruction, 0, len(p.Instructions)+len(p.PeriodicInstructions))
	for _, one := range p.Instructions {
		list = append(list, one.CommonInstruction)
	}
	for _, one := range p.PeriodicInstructions {
		list = append(list, one.CommonInstruction)
	}
	return list
}
