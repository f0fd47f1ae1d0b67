package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Authorities is the bundle of certificates that clouds and public registries are trusted by: Mozilla's, at the state that go.mod
// pins, so that it does not depend on the machine that builds. What Mozilla limits in time is included without the limit, because the
// format has no words for it.
func Authorities() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("the bundle of authorities is empty")
	}
	return out.Bytes(), nil
}
