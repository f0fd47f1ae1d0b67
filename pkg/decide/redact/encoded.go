package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// coded finds possible base64 of more than a word.
var coded = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}={0,2}`)

// hiddenText replaces an encoded text.
const hiddenText = "(an encoded text is hidden)"

// Encoded returns a text without the texts and compressed data that it contains in base64, because this package cannot
// search them for secrets. Names and checksums have the same characters, but do not decode to readable text.
func Encoded(text string) string {
	return coded.ReplaceAllStringFunc(text, func(found string) string {
		for start := range min(4, len(found)) {
			if readable(found[start:]) {
				return hiddenText
			}
		}
		return found
	})
}

func readable(found string) bool {
	found = strings.TrimRight(found, "=")
	found = found[:len(found)-len(found)%4]
	if len(found) < 20 {
		return false
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		plain, err := encoding.DecodeString(found)
		if err == nil && (printable(plain) || compressed(plain)) {
			return true
		}
	}
	return false
}

// compressed reports whether bytes begin like gzip or zstd.
func compressed(plain []byte) bool {
	if bytes.HasPrefix(plain, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return true
	}
	reader, err := gzip.NewReader(bytes.NewReader(plain))
	if err != nil {
		return false
	}
	_, err = io.CopyN(io.Discard, reader, 1)
	return err == nil || bytes.HasPrefix(plain, []byte{0x1f, 0x8b})
}

// printable reports whether bytes are text.
func printable(plain []byte) bool {
	if len(plain) == 0 || !utf8.Valid(plain) {
		return false
	}
	for _, r := range string(plain) {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
	}
	return true
}
