package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// crdAPI lists the fields of kinds and the checks of their values.
func crdAPI(dir string) ([]string, error) {
	definitions, err := readDefinitions(dir)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, crd := range definitions {
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			kind := fmt.Sprintf("kind %s/%s %s", crd.Spec.Group, version.Name, crd.Spec.Names.Kind)
			lines = append(lines, fmt.Sprintf("%s, %s %s", kind, strings.ToLower(string(crd.Spec.Scope)),
				crd.Spec.Names.Plural))
			for _, rule := range rules(version.Schema.OpenAPIV3Schema) {
				lines = append(lines, kind+", . must satisfy "+oneLine(rule.Rule))
			}
			open := func(*apiextv1.JSONSchemaProps) bool { return false }
			for _, f := range fields(version.Schema.OpenAPIV3Schema, open) {
				lines = append(lines, fieldLines(kind+", "+f.path, f)...)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

func fieldLines(subject string, f field) []string {
	lines := []string{subject + " " + typeOf(f.schema)}
	if f.required {
		lines = append(lines, subject+mustBeSet)
	}
	if f.schema.Default != nil {
		lines = append(lines, subject+" default "+string(f.schema.Default.Raw))
	}
	for _, value := range f.schema.Enum {
		lines = append(lines, subject+" value "+string(value.Raw))
	}
	for _, must := range musts(f.schema) {
		lines = append(lines, subject+" must "+must)
	}
	if f.schema.Items != nil && f.schema.Items.Schema != nil {
		for _, must := range musts(f.schema.Items.Schema) {
			lines = append(lines, subject+" must "+must+", each item")
		}
	}
	for _, rule := range rules(f.schema) {
		lines = append(lines, subject+" must satisfy "+oneLine(rule.Rule))
	}
	return lines
}

// commandFlag matches a flag in the reference of a command.
var commandFlag = regexp.MustCompile(`^ +(?:-(\w), |    )--([a-z0-9-]+)( \S.*?)?(?:   |$)`)

// cliAPI lists commands and their flags from the pages of their reference.
func cliAPI(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		command := "command " + strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".md"), "_", " ")
		lines = append(lines, command)
		for line := range strings.Lines(string(page)) {
			flag := commandFlag.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if flag == nil {
				continue
			}
			text := command + " --" + flag[2]
			if flag[3] != "" {
				text += " VALUE"
			}
			lines = append(lines, text)
			if flag[1] != "" {
				lines = append(lines, command+" -"+flag[1]+" for --"+flag[2])
			}
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("no pages of commands in %s", dir)
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}
