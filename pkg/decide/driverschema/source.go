package driverschema

import (
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
)

// Lengths of checksums in hexadecimal.
const (
	sha256Digits = 64
	sha512Digits = 128
)

// PermitInsecure is how an administrator permits a driver that CheckSource refuses.
const PermitInsecure = "--insecure-node-drivers of the server permits others"

// CheckSource returns an error if Drover cannot verify that a download is the driver that the administrator chose. The
// driver gets credentials of clouds.
func CheckSource(location, checksum string) error {
	if IsLocal(location) {
		return nil
	}
	var problems []string
	parsed, err := url.Parse(location)
	if err != nil || !strings.EqualFold(parsed.Scheme, "https") || parsed.Host == "" {
		problems = append(problems, "spec.url: must be an https address, such as "+
			"https://files.example.com/docker-machine-driver-x.tar.gz")
	}
	checksum = strings.TrimSpace(checksum)
	if _, err := hex.DecodeString(checksum); err != nil || len(checksum) != sha256Digits &&
		len(checksum) != sha512Digits {
		problems = append(problems, "spec.checksum: must be the SHA-256 or the SHA-512 of the file, as 64 or "+
			"128 hexadecimal digits")
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(append(problems, PermitInsecure), "; "))
}

// SameSHA256 reports whether a NodeDriver's checksum permits a download. Only a SHA-256 can be compared.
func SameSHA256(checksum, sum string) bool {
	checksum = strings.TrimSpace(checksum)
	return len(checksum) != sha256Digits || strings.EqualFold(checksum, sum)
}

// WrongChecksum is the message for a download that is not the one of spec.checksum.
func WrongChecksum(got, want string) string {
	return "spec.checksum: the driver's checksum is " + got + ", want " + want + "; the file at spec.url is another " +
		"one: compare it with the vendor's checksum, then correct spec.url or spec.checksum"
}
