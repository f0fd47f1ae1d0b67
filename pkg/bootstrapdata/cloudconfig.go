package bootstrapdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"

	"sigs.k8s.io/yaml"
)

const (
	// scriptPath is where cloud-init writes the script before it runs it.
	scriptPath = "/usr/local/custom_script/install.sh"
	// cloudHeader makes cloud-init read the rest as configuration, and lets the user refer to instance data in it.
	cloudHeader = "## template: jinja\n#cloud-config\n"
)

// CloudConfig wraps a script for Linux into a cloud-config, for machines that Drover's node drivers do not make. The user's
// own cloud-config is merged: the script is written and run first, the user's files and commands follow. An error says
// which part of the user's text cannot be merged.
func CloudConfig(script, userdata string) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(userdata), &config); err != nil {
		return "", fmt.Errorf("spec.userdata.inlineUserdata: read the cloud-config: %w", err)
	}
	if config == nil {
		config = map[string]any{}
	}
	content, err := packed(script)
	if err != nil {
		return "", err
	}
	file := map[string]any{"path": scriptPath, "permissions": "0600", "encoding": "gzip+b64", "content": content}
	for key, first := range map[string]any{"write_files": file, "runcmd": "sh " + scriptPath} {
		list, err := prepended(config, key, first)
		if err != nil {
			return "", err
		}
		config[key] = list
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("write the cloud-config: %w", err)
	}
	return cloudHeader + string(text), nil
}

func prepended(config map[string]any, key string, first any) ([]any, error) {
	existing, ok := config[key]
	if !ok || existing == nil {
		return []any{first}, nil
	}
	list, ok := existing.([]any)
	if !ok {
		return nil, fmt.Errorf("spec.userdata.inlineUserdata: %s has to be a list", key)
	}
	return append([]any{first}, list...), nil
}

// packed compresses because some clouds take no more than 16 KiB.
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
