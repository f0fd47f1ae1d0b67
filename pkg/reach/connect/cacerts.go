package connect

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net/http"
)

// withNewline returns PEM text with exactly one trailing newline, or nil.
func withNewline(pem []byte) []byte {
	pem = bytes.TrimRight(pem, "\n")
	if len(pem) == 0 {
		return nil
	}
	return append(bytes.Clone(pem), '\n')
}

// cacerts serves the authorities. A client with a registration token can request a proof that the server knows the
// token too (docs/wire/endpoints.md#authorities). Cluster agents do that.
func (s *server) cacerts(w http.ResponseWriter, r *http.Request) {
	body := withNewline(s.CACerts)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if nonce := r.Header.Get("X-Cattle-Nonce"); nonce != "" {
		if token := s.Registrations.proving(bearer(r)); token != "" {
			mac := hmac.New(sha512.New, []byte(token))
			mac.Write([]byte(nonce))
			mac.Write([]byte{0})
			mac.Write(body)
			mac.Write([]byte{0})
			w.Header().Set("X-Cattle-Hash", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
	}
	_, _ = w.Write(body) // fails only when the client has disconnected
}

// cacertsSetting serves the authorities as a setting of the management API.
func (s *server) cacertsSetting(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{ // fails only when the client has disconnected
		"id": "cacerts", "type": "setting", "name": "cacerts", "value": string(bytes.TrimRight(s.CACerts, "\n")),
	})
}
