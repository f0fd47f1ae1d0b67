package naming

import (
	"crypto/md5" //nolint:gosec // md5 is part of the wire format of shortened names, not a protection
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxLength is the length limit of a Kubernetes label value or DNS label, in bytes.
const MaxLength = 63

// SafeConcat joins parts with "-". It cuts a result of more than MaxLength bytes and appends digits of its SHA-256. The
// result has at most 63 bytes and no punctuation before the hash. (docs/wire/names.md#naming-functions: node agents and
// backups compute the same names.)
func SafeConcat(parts ...string) string {
	joined := strings.Join(parts, "-")
	if len(joined) <= MaxLength {
		return joined
	}
	const kept = 57
	digest := SHA256(joined)
	if isAlphanumeric(joined[kept-1]) {
		return joined[:kept] + "-" + digest[:5]
	}
	return joined[:kept-1] + "-" + digest[:6]
}

// SafeConcatMax is SafeConcat with the caller's limit, in bytes. A limit of 0 or less gives the empty string, and a
// limit of up to 5 a plain cut. Host names and Helm release names use it. (docs/wire/names.md#naming-functions.)
func SafeConcatMax(limit int, parts ...string) string {
	joined := strings.Join(parts, "-")
	switch {
	case limit <= 0:
		return ""
	case len(joined) <= limit:
		return joined
	case limit <= 5:
		return joined[:limit]
	}
	const hashLength = 6 // five digits and the dash before them
	digest := SHA256(joined)
	last := max(limit-hashLength-1, 0)
	if !isAlphanumeric(joined[last]) {
		return joined[:last] + "-" + digest[:hashLength]
	}
	if limit == hashLength {
		return digest[:hashLength-1]
	}
	return joined[:limit-hashLength] + "-" + digest[:hashLength-1]
}

// Limit returns s when it is shorter than n bytes. Otherwise it returns the beginning of s, a dash and five digits of
// its MD5: n bytes in all. n must be at least 6; a smaller n gives as many digits of the hash as fit.
func Limit(s string, n int) string {
	if len(s) < n {
		return s
	}
	if n < 6 {
		return Hex(s, max(n, 0))
	}
	return s[:n-6] + "-" + Hex(s, 5)
}

// Hex returns the first n hexadecimal digits of the MD5 of s; n is capped at 32.
func Hex(s string, n int) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // wire format, see the import
	digits := hex.EncodeToString(sum[:])
	return digits[:min(max(n, 0), len(digits))]
}

// SHA256 returns the hexadecimal SHA-256 of a content.
func SHA256[T ~string | ~[]byte](content T) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func isAlphanumeric(b byte) bool {
	return 'a' <= b && b <= 'z' || '0' <= b && b <= '9'
}
