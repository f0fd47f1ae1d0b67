package bootstrapdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"
)

const (
	// scriptPath is where cloud-init writes the script before it runs it.
	scriptPath = "/usr/local/custom_script/install.sh"
	// cloudHeader makes cloud-init read the rest as configuration. The user's part may refer to instance data.
	cloudHeader = "## template: jinja\n#cloud-config\n"
)

// The lists of a cloud-config that get Drover's entry as their first one.
const (
	writeFiles  = "write_files"
	runCommands = "runcmd"
)

// CloudConfig wraps a script for Linux into a cloud-config, for machines of other infrastructure providers. It merges
// the user's own cloud-config: the script is written and run first, then the user's files and commands. The error names
// the part of the user's text that cannot be merged.
func CloudConfig(script, userdata string) (string, error) {
	config, err := readUserdata(userdata)
	if err != nil {
		return "", fmt.Errorf("spec.userdata.inlineUserdata: %w", err)
	}
	content, err := packed(script)
	if err != nil {
		return "", err
	}
	file := map[string]any{"path": scriptPath, "permissions": "0600", "encoding": "gzip+b64", "content": content}
	for key, first := range map[string]any{writeFiles: file, runCommands: "sh " + scriptPath} {
		list, _ := config[key].([]any)
		config[key] = append([]any{first}, list...)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("write the cloud-config: %w", err)
	}
	return cloudHeader + string(text), nil
}

// CheckUserdata returns an error when the script cannot be merged with the user's cloud-config. The error never
// contains the text, because the text may contain passwords.
func CheckUserdata(userdata string) error {
	_, err := readUserdata(userdata)
	return err
}

// yamlLine finds the line number in a YAML error.
var yamlLine = regexp.MustCompile(`line [0-9]+`)

func readUserdata(userdata string) (map[string]any, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(userdata), &config); err != nil {
		// The parser's message may quote the text, so only the line number is passed on.
		message := "must be a cloud-config: a YAML map, without a script or a multi-part archive"
		if line := yamlLine.FindString(err.Error()); line != "" {
			message += "; see " + line
		}
		return nil, errors.New(message)
	}
	if config == nil {
		config = map[string]any{}
	}
	for _, key := range []string{writeFiles, runCommands} {
		if _, isList := config[key].([]any); config[key] != nil && !isList {
			return nil, errors.New(key + " must be a list")
		}
	}
	return config, nil
}

// packed compresses the text, because some clouds accept at most 16 KiB.
func packed(text string) (string, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write([]byte(text)); err != nil {
		return "", fmt.Errorf("compress the script: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compress the script: %w", err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}
