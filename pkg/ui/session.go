package ui

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// sessionLife is the longest lifetime of a session. A token that expires earlier ends it earlier.
	sessionLife = 8 * time.Hour
	// cookieSize is the size of one cookie's value in bytes. Browsers accept 4096 for name, value and attributes.
	cookieSize = 3800
	// maxCookies is how many cookies one session may have. Proxies often limit the head of a request to 16 KiB.
	maxCookies = 3
	// maxToken is the size in bytes of the longest token that fits into the cookies.
	maxToken = cookieSize*maxCookies*3/4 - 256
	// csrfHeader proves that a page of the UI sends an unsafe request.
	csrfHeader = "X-Drover-CSRF"
)

// session is what the cookies contain.
type session struct {
	// ID is random. The CSRF token is computed from it.
	ID string `json:"i"`
	// Token is the bearer token of the caller, empty in local mode.
	Token string `json:"t,omitempty"`
	// Expires is in seconds since 1970, zero for a session that ends with the process.
	Expires int64 `json:"e,omitempty"`
}

func (s session) expires() time.Time {
	if s.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(s.Expires, 0)
}

// sessions seals sessions into cookies.
type sessions struct {
	key  func(context.Context) ([]byte, error)
	name string
	// secure is false in local mode, which has no TLS.
	secure bool
}

func newSessions(opts Options) *sessions {
	if opts.LocalToken == "" {
		return &sessions{key: opts.Key, name: "__Secure-drover-ui", secure: true}
	}
	// Browsers send the cookies of one port to all ports of the host.
	sum := sha256.Sum256([]byte(opts.LocalToken))
	return &sessions{key: opts.Key, name: "drover-ui-" + hex.EncodeToString(sum[:4])}
}

// derived returns a key for one purpose.
func (s *sessions) derived(ctx context.Context, purpose string) ([]byte, error) {
	key, err := s.key(ctx)
	if err != nil {
		return nil, keyError{err}
	}
	return hkdf.Key(sha256.New, key, nil, "drover ui "+purpose, KeySize)
}

func (s *sessions) seal(ctx context.Context, content session) (string, error) {
	sealer, err := s.sealer(ctx)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encode the session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealer.Seal(nil, nil, plain, []byte(s.name))), nil
}

func (s *sessions) sealer(ctx context.Context) (cipher.AEAD, error) {
	key, err := s.derived(ctx, "cookie")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// keyError is an answer to the server itself. It has no Unwrap, so that nothing takes it for an answer to the caller.
type keyError struct{ cause error }

func (e keyError) Error() string { return e.cause.Error() }

// errNoSession means that a request has no valid cookies.
var errNoSession = errors.New("there is no session")

func (s *sessions) open(ctx context.Context, sealed string, now time.Time) (session, error) {
	var content session
	sealer, err := s.sealer(ctx)
	if err != nil {
		return content, err
	}
	bytes, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return content, errNoSession
	}
	plain, err := sealer.Open(nil, nil, bytes, []byte(s.name))
	if err != nil || json.Unmarshal(plain, &content) != nil {
		return session{}, errNoSession
	}
	if content.Expires != 0 && !now.Before(content.expires()) {
		return session{}, errNoSession
	}
	return content, nil
}

// csrf returns the proof for csrfHeader.
func (s *sessions) csrf(ctx context.Context, content session) (string, error) {
	key, err := s.derived(ctx, "csrf")
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(content.ID))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// cookie is the i-th cookie of a session, with the attributes that all of them have.
func (s *sessions) cookie(i int, value string) *http.Cookie {
	name := s.name
	if i > 0 {
		name += "-" + strconv.Itoa(i)
	}
	return &http.Cookie{Name: name, Value: value, Path: Prefix, HttpOnly: true, Secure: s.secure,
		SameSite: http.SameSiteStrictMode}
}

// write sets the cookies, and deletes those of a former, longer session.
func (s *sessions) write(ctx context.Context, w http.ResponseWriter, content session, now time.Time) error {
	sealed, err := s.seal(ctx, content)
	if err != nil {
		return err
	}
	if len(sealed) > maxCookies*cookieSize {
		return invalid(fmt.Sprintf("the token has %d bytes, and the cookies of a browser hold at most %d; use a "+
			"shorter token, or send it in header Authorization", len(content.Token), maxToken))
	}
	for i := range maxCookies {
		part := sealed[:min(len(sealed), cookieSize)]
		sealed = sealed[len(part):]
		cookie := s.cookie(i, part)
		if part == "" {
			cookie.MaxAge = -1
		} else if content.Expires != 0 {
			cookie.MaxAge = int(content.expires().Sub(now).Seconds())
		}
		http.SetCookie(w, cookie)
	}
	return nil
}

// clear deletes the cookies.
func (s *sessions) clear(w http.ResponseWriter) {
	for i := range maxCookies {
		cookie := s.cookie(i, "")
		cookie.MaxAge = -1
		http.SetCookie(w, cookie)
	}
}

// read returns the session of a request. The error is errNoSession without a valid one.
func (s *sessions) read(r *http.Request, now time.Time) (session, error) {
	var sealed strings.Builder
	for i := range maxCookies {
		cookie, err := r.Cookie(s.cookie(i, "").Name)
		if err != nil {
			break
		}
		sealed.WriteString(cookie.Value)
	}
	if sealed.Len() == 0 {
		return session{}, errNoSession
	}
	return s.open(r.Context(), sealed.String(), now)
}
