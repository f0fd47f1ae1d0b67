package lab

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
)

// Hold delays the API's answers to creates after the machines are created. A test can then act while the cloud has a
// machine that its caller does not know yet.
type Hold struct {
	released, sent chan struct{}
	release, send  func()
}

// HoldCreates delays the API's answers to creates until they are released.
func (l *Lab) HoldCreates() *Hold {
	h := &Hold{released: make(chan struct{}), sent: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.released) })
	h.send = sync.OnceFunc(func() { close(h.sent) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = h
	return h
}

// Release sends the answers.
func (h *Hold) Release() { h.release() }

// Sent is closed once an answer was sent.
func (h *Hold) Sent() <-chan struct{} { return h.sent }

// await waits while answers to creates are held. It returns the function to call after the answer was written.
func (l *Lab) await(ctx context.Context) (written func(http.ResponseWriter)) {
	l.mu.Lock()
	h := l.held
	l.mu.Unlock()
	if h == nil {
		return func(http.ResponseWriter) {}
	}
	select {
	case <-h.released:
	case <-ctx.Done():
	}
	return func(w http.ResponseWriter) {
		if http.NewResponseController(w).Flush() == nil && ctx.Err() == nil {
			h.send()
		}
	}
}

// createRequest is the body of POST /v1/machines.
type createRequest struct {
	Name          string `json:"name"`
	AuthorizedKey string `json:"authorizedKey"`
	Tag           string `json:"tag,omitempty"`
}

// powerRequest is the body of POST /v1/machines/{name}/power.
type powerRequest struct {
	Power  Power `json:"power"`
	AtOnce bool  `json:"atOnce,omitempty"`
}

// partitionRequest is the body of POST /v1/machines/{name}/partition.
type partitionRequest struct {
	Cut bool `json:"cut"`
}

// faultRequest is the body of POST /v1/machines/{name}/faults.
type faultRequest struct {
	Action string `json:"action"`
}

// failure is the body of every answer that is not a success.
type failure struct {
	Message string `json:"message"`
}

// Handler serves the lab's API to callers that send "Authorization: Bearer <token>".
func (l *Lab) Handler(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/machines", func(w http.ResponseWriter, r *http.Request) {
		var body createRequest
		if !read(w, r, &body) {
			return
		}
		m, err := l.Create(r.Context(), body.Name, body.AuthorizedKey, body.Tag)
		written := l.await(r.Context())
		answer(w, m, err)
		written(w)
	})
	mux.HandleFunc("GET /v1/machines", func(w http.ResponseWriter, _ *http.Request) { answer(w, l.List(), nil) })
	mux.HandleFunc("GET /v1/machines/{name}", func(w http.ResponseWriter, r *http.Request) {
		m, err := l.Get(r.PathValue("name"))
		answer(w, m, err)
	})
	mux.HandleFunc("DELETE /v1/machines/{name}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, l.Delete(r.Context(), r.PathValue("name")))
	})
	mux.HandleFunc("POST /v1/machines/{name}/power", func(w http.ResponseWriter, r *http.Request) {
		var body powerRequest
		if read(w, r, &body) {
			answer(w, struct{}{}, l.SetPower(r.Context(), r.PathValue("name"), body.Power, body.AtOnce))
		}
	})
	mux.HandleFunc("POST /v1/machines/{name}/partition", func(w http.ResponseWriter, r *http.Request) {
		var body partitionRequest
		if read(w, r, &body) {
			answer(w, struct{}{}, l.Partition(r.Context(), r.PathValue("name"), body.Cut))
		}
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, _ *http.Request) {
		events, err := l.Events()
		answer(w, events, err)
	})
	mux.HandleFunc("POST /v1/faults", func(w http.ResponseWriter, r *http.Request) {
		var body Fault
		if read(w, r, &body) {
			l.Inject(body)
			answer(w, struct{}{}, nil)
		}
	})
	mux.HandleFunc("POST /v1/machines/{name}/faults", func(w http.ResponseWriter, r *http.Request) {
		var body faultRequest
		if read(w, r, &body) {
			answer(w, l.nextFault(body.Action, r.PathValue("name")), nil)
		}
	})
	return authenticate(token, mux)
}

func authenticate(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			write(w, http.StatusUnauthorized, failure{Message: "wrong or missing token"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		write(w, http.StatusBadRequest, failure{Message: "decode body: " + err.Error()})
		return false
	}
	return true
}

func answer(w http.ResponseWriter, body any, err error) {
	switch {
	case err == nil:
		write(w, http.StatusOK, body)
	case errors.Is(err, ErrNotFound):
		write(w, http.StatusNotFound, failure{Message: err.Error()})
	case errors.Is(err, ErrInvalid):
		write(w, http.StatusUnprocessableEntity, failure{Message: err.Error()})
	default:
		write(w, http.StatusInternalServerError, failure{Message: err.Error()})
	}
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
