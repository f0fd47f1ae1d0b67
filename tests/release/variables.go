package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The variables of the components, in the syntax of clusterctl.
const (
	serverURL   = "${DROVER_SERVER_URL}"
	serviceType = "${DROVER_SERVICE_TYPE:=ClusterIP}"
	logLevel    = "${DROVER_LOG_LEVEL:=info}"
)

// somewhere is a valid address in place of serverURL, which the chart refuses.
const somewhere = "https://server-url.invalid"

// settingsMap is a ConfigMap with more settings of the server. The user creates it, if necessary.
const settingsMap = "drover-settings"

// values are the chart's values for an installation with clusterctl, which installs Cluster API's core.
func values() map[string]any {
	return map[string]any{
		"server": map[string]any{"url": somewhere, "capi": "external"},
		"extraEnvFrom": []any{map[string]any{"configMapRef": map[string]any{"name": settingsMap,
			"optional": true}}},
	}
}

// substitute puts the variables into all texts of an object.
func substitute(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = substitute(inner)
		}
	case []any:
		for i, inner := range value {
			value[i] = substitute(inner)
		}
	case string:
		return strings.ReplaceAll(strings.ReplaceAll(value, somewhere, serverURL), "--log-level=info",
			"--log-level="+logLevel)
	}
	return value
}

var variable = regexp.MustCompile(`\$\{[^}]*\}?`)

// checkVariables refuses text that clusterctl would take for a variable.
func checkVariables(text string) error {
	for _, found := range variable.FindAllString(text, -1) {
		if !slices.Contains([]string{serverURL, serviceType, logLevel}, found) {
			return fmt.Errorf("clusterctl would replace %s as a variable", found)
		}
	}
	return nil
}
