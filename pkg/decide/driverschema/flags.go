package driverschema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// FlagType is the type of a flag's value.
type FlagType string

// The flag types of the plugin protocol.
const (
	FlagString FlagType = "string"
	FlagInt    FlagType = "int"
	FlagBool   FlagType = "bool"
	FlagList   FlagType = "list"
)

// Flag is one create flag of a driver.
type Flag struct {
	// Name is the name with the driver's prefix and without leading dashes: "amazonec2-instance-type".
	Name string `json:"name"`
	// Type is the type of the value.
	Type FlagType `json:"type"`
	// Usage is the driver's own description.
	Usage string `json:"usage,omitempty"`
	// EnvVar is the environment variable that the driver reads when the flag is absent.
	EnvVar string `json:"envVar,omitempty"`
	// Default is the value of a string flag, or of an int flag in decimal.
	Default string `json:"default,omitempty"`
	// List is the value of a list flag.
	List []string `json:"list,omitempty"`
}

// LocalURL is the URL of a NodeDriver that is compiled into rancher-machine.
const LocalURL = "local://"

//go:embed coreflags.json
var coreFlags []byte

// Core describes the drivers that are compiled into rancher-machine.
type Core struct {
	// Version is the release of rancher-machine, such as "v0.15.0-rancher145".
	Version string `json:"version"`
	// Drivers maps the name of a driver to its flags.
	Drivers map[string][]Flag `json:"drivers"`
}

// LoadCore reads the embedded table. It fails only if the table is broken, which a test excludes.
func LoadCore() (Core, error) {
	var core Core
	if err := json.Unmarshal(coreFlags, &core); err != nil {
		return Core{}, fmt.Errorf("read the table of driver flags: %w", err)
	}
	return core, nil
}

// FieldName is the field of a flag: it drops the driver's prefix and joins the other words in camel case. A flag
// without a prefix cannot be a field; the error names it.
func FieldName(flag string) (string, error) {
	_, rest, ok := strings.Cut(flag, "-")
	if !ok || rest == "" {
		return "", fmt.Errorf("flag %q has no driver prefix: want DRIVER-NAME", flag)
	}
	words := strings.Split(rest, "-")
	var name strings.Builder
	name.WriteString(words[0])
	for _, word := range words[1:] {
		if word != "" {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String(), nil
}
