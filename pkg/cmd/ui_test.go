package cmd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestCheckLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:80": true, "localhost:8080": true, "127.1.2.3:1": true,
		"0.0.0.0:0": false, ":8080": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false,
		"127.0.0.1": false, "localhost.example.com:80": false,
	} {
		if err := checkLoopback(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The command prints a URL that the page can use, opens it, and ends with the user.
func TestUI_ServesThisComputer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan string, 1)
	o := &uiOptions{browse: func(_ context.Context, file string) error { opened <- file; return nil }}
	o.config = memkube.New(memkube.Options{}).Config("ui")
	cmd := newUICommand(nil, o)
	reader, writer := io.Pipe()
	cmd.SetOut(writer)
	cmd.SetArgs(nil)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	check(t, err)
	url, token, ok := strings.Cut(strings.TrimSpace(line), "#token=")
	if !ok || len(token) < 20 || !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/ui/") {
		t.Fatalf("printed %q", line)
	}
	page := <-opened
	about, err := os.Stat(page)
	check(t, err)
	content, err := os.ReadFile(page)
	check(t, err)
	if strings.Contains(page, token) || about.Mode() != 0o600 || !strings.Contains(string(content), "url="+
		strings.TrimSpace(line)+`"`) {
		t.Errorf("opened %s with mode %s: %s", page, about.Mode(), content)
	}
	for path, want := range map[string]int{"": 200, "api/v1/session": 401, "api/openapi.json": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		check(t, err)
		got, err := http.DefaultClient.Do(r)
		check(t, err)
		got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the command ends with %v", err)
	}
	if _, err := os.Stat(page); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the page with the token stays: %v", err)
	}
}
