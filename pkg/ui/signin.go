package ui

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"crypto/rand"
)

// signInBody is the body of a sign-in.
type signInBody struct {
	// Token is a bearer token of the management cluster; in local mode the one that drover ui has printed.
	Token string `json:"token"`
}

// Values of sessionBody.Mode.
const (
	modeServer = "server"
	modeLocal  = "local"
)

// sessionBody describes the caller.
type sessionBody struct {
	User   string   `json:"user"`
	Groups []string `json:"groups"`
	// CSRF is the value of header X-Drover-CSRF for unsafe requests with the session's cookie.
	CSRF    string `json:"csrf"`
	Version string `json:"version"`
	// Mode is server or local.
	Mode string `json:"mode"`
	// Expires is null for a session that ends with the program.
	Expires *time.Time `json:"expires"`
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (u *ui) getSession(w http.ResponseWriter, r *http.Request, c *caller) error {
	body, err := u.describe(r.Context(), c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// describe returns what the page needs to know about the caller.
func (u *ui) describe(ctx context.Context, c *caller) (sessionBody, error) {
	body := sessionBody{User: c.user, Groups: c.groups, Version: cmp.Or(u.opts.Version, "dev"), Mode: modeServer}
	if body.Groups == nil {
		body.Groups = []string{}
	}
	if u.isLocal() {
		body.Mode = modeLocal
	}
	if !c.expires.IsZero() {
		expires := c.expires.UTC()
		body.Expires = &expires
	}
	if c.session == nil {
		return body, nil
	}
	var err error
	body.CSRF, err = u.sessions.csrf(ctx, *c.session)
	return body, err
}

// postSession signs in. A token that the management cluster does not accept gets no cookie.
func (u *ui) postSession(w http.ResponseWriter, r *http.Request, _ *caller) error {
	if isForeign(r) {
		return forbidden("the UI answers only its own pages")
	}
	if err := u.limits.signIn(r.RemoteAddr); err != nil {
		return err
	}
	var body signInBody
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	token := strings.TrimSpace(body.Token)
	if err := checkToken(token); err != nil {
		return err
	}
	c, err := u.callerWith(r.Context(), token)
	if err != nil {
		return err
	}
	content := session{ID: newSessionID()}
	if !u.isLocal() {
		content.Token = token
		content.Expires = endOf(c.expires, time.Now()).Unix()
	}
	if err := u.sessions.write(r.Context(), w, content, time.Now()); err != nil {
		return err
	}
	c.session, c.expires = &content, content.expires()
	described, err := u.describe(r.Context(), c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, described)
	return nil
}

// endOf is when a session ends whose token expires at a time, or at no known time.
func endOf(expires, now time.Time) time.Time {
	if end := now.Add(sessionLife); expires.IsZero() || expires.After(end) {
		return end
	}
	return expires
}

func newSessionID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// deleteSession signs out: it deletes the cookies and ends the streams of the session in this replica.
func (u *ui) deleteSession(w http.ResponseWriter, _ *http.Request, c *caller) error {
	u.sessions.clear(w)
	if c.session != nil {
		u.hubs.signOut(c.session.ID)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
