package cmd

import (
	"context"
	"io"
	"net/http"
	"testing"
)

// A request in progress at the order to end is answered, and so is a request during the drain.
func TestServe_AnswersUntilItHasDrained(t *testing.T) {
	listener, err := listen(t.Context(), "127.0.0.1:0")
	check(t, err)
	arrived, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	mux.HandleFunc("/quick", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "quick") })
	address := "http://" + listener.Addr().String()
	get := func(path string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, http.NoBody)
		if err != nil {
			return err.Error()
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err.Error()
		}
		return string(body)
	}

	ctx, end := context.WithCancel(t.Context())
	ended, slow := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- serve(ctx, &http.Server{Handler: mux}, listener, func() {
			if got := get("/quick"); got != "quick" {
				t.Errorf("while it drains it answers %q", got)
			}
			close(release)
		})
	}()
	go func() { slow <- get("/slow") }()
	<-arrived
	end()
	if got := <-slow; got != "done" {
		t.Errorf("the running request got the answer %q", got)
	}
	check(t, <-ended)
	if got := get("/quick"); got == "quick" {
		t.Error("the server answers after its end")
	}
}

func TestOptions_ShutdownDelay(t *testing.T) {
	o, err := parse(t, []string{"--shutdown-delay=9s"}, nil)
	check(t, err)
	if o.drainFor().Seconds() != 9 {
		t.Errorf("the shutdown delay is %s", o.drainFor())
	}
	o.embedded = true
	if o.drainFor() != 0 {
		t.Error("with --embedded, the shutdown delay must be 0")
	}
	o, err = parse(t, []string{"--shutdown-delay=-1s", "--server-url=https://drover.example.com"}, nil)
	check(t, err)
	if err := o.check(); err == nil {
		t.Error("a negative delay is accepted")
	}
}
