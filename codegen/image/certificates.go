package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Authorities returns the bundle of certificate authorities for clouds and public registries. It is Mozilla's bundle in
// the version that go.mod pins, so that it does not depend on the build machine. Mozilla trusts some authorities only
// until a date. The bundle includes them without that limit, because the format cannot express it.
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
