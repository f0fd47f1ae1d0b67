package ui

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/drover-io/drover/pkg/cmd"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUISignIn signs in with a wrong and with a right token of the management cluster, signs out, and opens the URL
// that drover ui prints.
func TestUISignIn(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	token := administrator(t, plane.Namespace(t))
	browse(t, "signin", map[string]string{"URL": st.URL, "TOKEN": token}, steps{
		"drover ui": func() string { return startLocal(t, plane.Kubeconfig(t)) },
	})
}

// startLocal runs drover ui until the test ends, and returns the URL that it prints.
func startLocal(t *testing.T, kubeconfig string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	read, write := io.Pipe()
	root := cmd.NewCommand(nil)
	root.SetOut(write)
	root.SetErr(t.Output())
	root.SetArgs([]string{"ui", "--no-browser", "--kubeconfig", kubeconfig})
	done := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		_ = write.CloseWithError(io.EOF) // it never fails
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("drover ui: %v", err)
		}
	})
	url, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("read the URL that drover ui prints: %v", err)
	}
	return url[:len(url)-1]
}
