package redact

import (
	"bytes"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask replaces a secret.
const Mask = "***"

// value is what follows the word that introduces a secret. It may be quoted, and the value of a header begins with a
// scheme's name.
const value = `(?:["']?(?:basic|bearer|digest|negotiate)\s+)?)(?:"[^"]*"|'[^']*'|\S+)`

// elsewhere finds credentials in URLs and of curl, and tokens of clusters.
const elsewhere = `|(\s-(?:u|-user)[ =])\S+|://[^/\s@]+@|K10[0-9a-f]{8,}\S*`

// prose finds "pass" as a verb: a list of checks follows, as in "probes do not pass: etcd", and no password. It is the
// first group of the expressions that begin with it. Other secrets after it are still found.
const prose = `(?i)(\b(?:not|never|cannot|[a-z]+n't)\s+pass:)|`

var (
	// secretive finds the values after every word that may introduce a secret. It also treats every long word as a
	// secret. In short ends of outputs, little is lost by that.
	secretive = regexp.MustCompile(
		prose + `((?:token|passw(?:or)?d|passphrase|pwd|secret|credential|authorization|bearer|(?:api|access|private)[-_]?key)[\w-]*["']?` +
			`(?:\s*[:=]\s*|\s+)` + value +
			`|((?:(?:\b|_)(?:auth|pass|psk)|key[-_]?data)["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*'|\S+)` +
			elsewhere + `|[A-Za-z0-9+/_=-]{40,}`)
	// told finds the values of variables, fields, flags and headers whose names indicate a secret. It keeps sentences
	// about Secrets and credentials.
	told = regexp.MustCompile(
		prose + `((?:passw(?:or)?d|passphrase|pwd|authorization|bearer|token|secret[-_]?\w*key|client[-_]?secret|(?:api|access|private)[-_]?key|key[-_]?data` +
			`|(?:\b|_)(?:auth|pass|psk)|\w+pass\b)[\w-]*["']?\s*[:=]\s*` + value +
			`|((?:secret|credential)[\w-]*(?:["']\s*:|\s*=)\s*)(?:"[^"]*"|'[^']*'|\S+)` +
			`|(--?[\w-]*(?:passw(?:or)?d|passphrase|pwd|pass\b|token|secret|credential|(?:api|access|private)[-_]?key)[\w-]*\s+)(?:"[^"]*"|'[^']*'|\S+)|(\bbearer\s+)\S+` + elsewhere)
	// queries finds the query of a URL. Some clouds put signatures there.
	queries = regexp.MustCompile(`(https?://[^\s"'?]+\?)[^\s"']+`)
	// users finds a user with a password before a host, and the beginning of the host.
	users = regexp.MustCompile(`[\w.$%+~-]+:[^\s/"'<>]+@\w*`)
	// located finds the same in URLs, where a password may contain a slash. Text that looks like a port is not a
	// password.
	located = regexp.MustCompile(`://[^\s"'<>/:@]*:[^\s"'<>]*@(?:sha[0-9]{3}:)?`)
	ports   = regexp.MustCompile(`^://[^:]*:[0-9]+/`)
	// schemes and digests find the beginning and the end of an address.
	schemes = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	digests = regexp.MustCompile(`@sha[0-9]{3}:[0-9a-f]{32,}$`)
	keys    = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// names matches fields, flags and variables that contain secrets.
	names = regexp.MustCompile(
		`(?i)token|passw|passphrase|pwd|secret|credential|auth|(api|access|private|secret|ssh)[-_]?key|key[-_]?(data|contents?)$|psk|pass$`)
	// references matches the end of names that only refer to an object with a secret.
	references = regexp.MustCompile(
		`(?i)(secret|credential|config|account)[-_]?(secret)?[-_]?(names?|refs?)$|file$|path$|ttl$`)
)

// Text returns a text without the secrets that its words introduce, without the queries of URLs, and without private
// keys.
func Text(text string) string {
	return replace(told, withoutUsers(queries.ReplaceAllString(keys.ReplaceAllString(text, Mask), "${1}"+Mask)), 0)
}

// Address returns a registry, an image or a URL without user, password and query. Otherwise it returns the input
// unchanged, with or without a scheme, valid or not.
func Address(text string) string {
	scheme := schemes.FindString(text)
	digest := digests.FindString(text[len(scheme):])
	rest := text[len(scheme) : len(text)-len(digest)]
	if query := strings.Index(rest, "?"); query >= 0 && query < strings.LastIndex(rest, "@") {
		switch before := rest[:query]; {
		case !strings.Contains(before, ":"):
			rest = before + "?"
		case strings.Contains(before, "@") || ports.MatchString("://"+before):
			return scheme + Mask + digest // the @ may end a password, or be part of the query
		}
	}
	rest = rest[strings.LastIndex(rest, "@")+1:]
	if at := strings.IndexAny(rest, "?#"); at >= 0 {
		rest = rest[:at+1] + Mask
	}
	return scheme + rest + digest
}

// Variable returns the name of a variable without the value that some users append to it.
func Variable(name string) string {
	bare := strings.TrimPrefix(name, "$env:")
	at := strings.IndexFunc(bare, func(r rune) bool { return !strings.ContainsRune(nameRunes, r) })
	if at < 0 {
		return name
	}
	_, size := utf8.DecodeRuneInString(bare[at:])
	if end := len(name) - len(bare) + at + size; end < len(name) {
		return name[:end] + Mask
	}
	return name
}

// nameRunes are the characters of variable names.
const nameRunes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// withoutUsers removes USER:PASSWORD@, after a scheme or without one. It keeps an image's tag that is followed by @ and
// a checksum.
func withoutUsers(text string) string {
	text = located.ReplaceAllStringFunc(text, func(found string) string {
		if ports.MatchString(found) || !strings.HasSuffix(found, "@") {
			return found
		}
		return Mask
	})
	return users.ReplaceAllStringFunc(text, func(found string) string {
		host := found[strings.LastIndex(found, "@")+1:]
		if host == "sha256" || host == "sha512" {
			return found
		}
		return Mask + "@" + host
	})
}

// URL returns a URL without a password and without its query, because some clouds put signatures there.
func URL(location *url.URL) string {
	shown := *location
	if shown.RawQuery != "" {
		shown.RawQuery = Mask
	}
	shown.Fragment, shown.RawFragment = "", ""
	return shown.Redacted()
}

// WithoutURL returns the error of an HTTP client without its URL, because the query may contain a signature.
func WithoutURL(err error) error {
	if urlError, ok := errors.AsType[*url.Error](err); ok {
		return urlError.Err
	}
	return err
}

// Named reports whether a field, flag or variable of that name contains a secret.
func Named(name string) bool { return names.MatchString(name) && !references.MatchString(name) }

// Tail returns the end of an output as one line of at most about size bytes. It masks known secrets and text that looks
// like a secret. The search begins before the returned part, so that it still finds the words that introduce a secret.
func Tail(output []byte, size int, known *Secrets) string {
	output = []byte(known.Mask(string(output)))
	if len(output) > 4*size {
		output = output[len(output)-4*size:]
		if cut := bytes.IndexAny(output, " \n"); cut >= 0 {
			output = output[cut:] // half a word could be the unrecognizable end of a secret
		}
	}
	text := withoutUsers(string(output))
	at := max(0, len(text)-2*size)
	if cut := strings.IndexAny(text[at:], " \n"); at > 0 && cut >= 0 {
		at += cut
	}
	return Clip(replace(secretive, text, at), size)
}

// announcedIn returns the values that Text would mask.
func announcedIn(text string) []string {
	var out []string
	for _, found := range told.FindAllStringSubmatchIndex(text, -1) {
		if isProse(found) {
			continue
		}
		from := found[0]
		for group := 2; group+1 < len(found); group += 2 {
			from = max(from, found[group+1])
		}
		value := strings.Trim(text[from:found[1]], `"',;`)
		if user, ok := strings.CutPrefix(value, "://"); ok {
			_, password, _ := strings.Cut(strings.TrimSuffix(user, "@"), ":")
			value = password
		}
		out = append(out, value)
	}
	return out
}

// isProse reports whether a match of an expression is that of prose.
func isProse(found []int) bool { return found[2] >= 0 }

// replace masks what an expression finds after a position, except its groups and prose. It drops the text before the
// position.
func replace(expression *regexp.Regexp, text string, at int) string {
	var out strings.Builder
	for _, found := range expression.FindAllStringSubmatchIndex(text, -1) {
		if found[1] <= at || isProse(found) {
			continue
		}
		out.WriteString(text[at:max(at, found[0])])
		for group := 2; group+1 < len(found); group += 2 {
			if from, to := found[group], found[group+1]; from >= at {
				out.WriteString(text[from:to])
			}
		}
		out.WriteString(Mask)
		at = found[1]
	}
	out.WriteString(text[at:])
	return out.String()
}

// Clip makes a short line of a text: its end, in whole words, of at most size bytes.
func Clip(text string, size int) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	kept, length := len(words), 0
	for kept > 0 && length+len(words[kept-1])+1 <= size {
		kept--
		length += len(words[kept]) + 1
	}
	line := strings.Join(words[kept:], " ")
	if kept > 0 && line != "" {
		line = "… " + line
	}
	return line
}
