// Program is the program of the test image. It prints its surroundings, because the container has no shell.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	seen := map[string]any{
		"args": os.Args, "greeting": os.Getenv("GREETING"), "user": fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		"writesRoot": os.WriteFile("/new", nil, 0o600) == nil, "writesVolume": os.WriteFile("/out/new", nil,
			0o600) == nil,
		"writesHome": os.WriteFile("new", nil, 0o600) == nil,
	}
	seen["dir"], _ = os.Getwd()
	for _, path := range []string{"/etc/motd", "/etc/hostname", "/etc/machine-id"} {
		content, err := os.ReadFile(path)
		seen[path] = string(content)
		if err != nil {
			seen[path] = "-"
		}
	}
	var names []string
	entries, _ := os.ReadDir("/")
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	seen["root"] = names
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		panic(err)
	}
}
