package ui

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scriptTime is the limit for one script.
const scriptTime = 2 * time.Minute

// request begins a line with which a script asks for a step.
const request = "step: "

// steps are what a script can ask the Go test to do. The answer goes back to the script.
type steps map[string]func() string

// browse runs a script of browser/ to its end. Its environment has each variable with the prefix UI_. Tokens are not in
// its arguments, which every user of the machine can see.
func browse(t *testing.T, script string, env map[string]string, can steps) {
	t.Helper()
	browseFor(t, scriptTime, script, env, can)
}

// browseFor is browse with another limit.
func browseFor(t *testing.T, limit time.Duration, script string, env map[string]string, can steps) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	node := exec.CommandContext(ctx, nodeProgram(), filepath.Join("browser", script+".mjs"))
	node.Env = append(os.Environ(), "UI_CHROMIUM="+chromium(t))
	for name, value := range env {
		node.Env = append(node.Env, "UI_"+name+"="+value)
	}
	// The script closes the browser when its input ends.
	answers, err := node.StdinPipe()
	check(t, err)
	node.Cancel = answers.Close
	node.WaitDelay = 10 * time.Second
	var problems bytes.Buffer
	node.Stderr = &problems
	lines, err := node.StdoutPipe()
	check(t, err)
	check(t, node.Start())
	serve(t, lines, answers, can)
	if err := node.Wait(); err != nil {
		t.Errorf("browser/%s.mjs: %v\n%s", script, err, problems.String())
	}
}

// serve logs the output of a script and answers its requests for steps.
func serve(t *testing.T, lines io.Reader, answers io.Writer, can steps) {
	t.Helper()
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		name, isRequest := strings.CutPrefix(scanner.Text(), request)
		if !isRequest {
			t.Log(scanner.Text())
			continue
		}
		step := can[name]
		if step == nil {
			t.Errorf("the script asks for step %q, which does not exist", name)
			return
		}
		if _, err := fmt.Fprintln(answers, step()); err != nil {
			t.Errorf("answer step %s: %v", name, err)
			return
		}
	}
}

// nodeProgram returns the Node.js of the lock file, or that of this machine if the lock file has none for it.
func nodeProgram() string {
	if own := filepath.Join("node_modules", ".bin", "node"); isFile(own) {
		return own
	}
	return "node"
}

// chromium returns the path of the browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("Chromium is missing; scripts/deps browser installs it")
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
