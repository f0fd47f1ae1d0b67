package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/decide/cloudcredential"
)

const (
	// shortest is the minimum length of a value, in bytes. Masking shorter values would only garble the text.
	shortest = 6
	// shortestLine is the same for a line of a longer text, which may be a word of any language.
	shortestLine = 16
	// largestDocument is the largest value that is parsed as JSON or YAML, in bytes.
	largestDocument = 256 << 10
)

// public are keys of Secrets whose values are public and appear in many places.
var public = []string{
	"username", "user", "namespace", "type", "format", "ca.crt", "cacert", "tls.crt", "clustername",
	"region", "defaultregion", "bucket", "defaultbucket", "endpoint", "defaultendpoint", "folder", "defaultfolder",
	"apiversion", "kind", "name", "current-context", "server", "certificate-authority-data",
}

// Secrets is a set of confidential values. The zero value and nil are empty sets. It is not safe for concurrent use.
type Secrets struct {
	values   map[string]bool
	except   map[string]bool
	replacer *strings.Replacer
}

// Except adds texts that are not secrets even if a Secret contains them: names of objects. Call it before Add.
func (s *Secrets) Except(texts ...string) {
	if s.except == nil {
		s.except = map[string]bool{}
	}
	for _, text := range texts {
		s.except[text] = true
	}
}

// Add adds values as they are. It skips short and public ones.
func (s *Secrets) Add(values ...string) {
	for _, value := range values {
		value = strings.TrimSpace(value)
		if len(value) < shortest || s.values[value] || s.except[value] || isPublic(value) {
			continue
		}
		if s.values == nil {
			s.values = map[string]bool{}
		}
		s.values[value], s.replacer = true, nil
	}
}

// AddText adds a value and its parts: the leaves of a document, the lines of a text, and what Text would mask in it.
func (s *Secrets) AddText(value string) {
	s.Add(value)
	if len(value) <= largestDocument && strings.ContainsAny(value, "{:") {
		var tree any
		if yaml.Unmarshal([]byte(value), &tree) == nil {
			s.addTree("", tree)
		}
	}
	s.Add(announcedIn(value)...)
	if !strings.Contains(strings.TrimSpace(value), "\n") {
		return
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
			s.Add(line)
		}
	}
}

// AddData adds the data of a Secret.
func (s *Secrets) AddData(data map[string][]byte) {
	for key, value := range data {
		// Keys of cloud credentials begin with the driver's name.
		bare := cloudcredential.FieldOf(key)
		if isPublic(key) || isPublic(bare) {
			continue
		}
		s.AddText(string(value))
	}
}

func isPublic(key string) bool { return slices.Contains(public, strings.ToLower(key)) }

// addTree adds the texts of a document. For a pair such as a registry's credential, it adds the pair and the password.
func (s *Secrets) addTree(key string, node any) {
	switch value := node.(type) {
	case map[string]any:
		for name, child := range value {
			s.addTree(name, child)
		}
	case []any:
		for _, child := range value {
			s.addTree(key, child)
		}
	case string:
		if isPublic(key) {
			return
		}
		s.Add(value)
		if plain, err := base64.StdEncoding.DecodeString(value); err == nil && printable(plain) {
			s.Add(string(plain))
			if _, password, ok := strings.Cut(string(plain), ":"); ok {
				s.Add(password)
			}
		}
	}
}

// Mask returns a text without the values, in all forms in which programs write them.
func (s *Secrets) Mask(text string) string {
	if s == nil || len(s.values) == 0 {
		return text
	}
	if s.replacer == nil {
		s.replacer = s.compile()
	}
	return s.replacer.Replace(text)
}

// compile sorts the longest values first, so that of two values at the same place the longer one is masked.
func (s *Secrets) compile() *strings.Replacer {
	forms := map[string]bool{}
	for value := range s.values {
		for _, form := range formsOf(value) {
			forms[form] = true
		}
	}
	sorted := make([]string, 0, len(forms))
	for form := range forms {
		sorted = append(sorted, form)
	}
	slices.SortFunc(sorted, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, form := range sorted {
		pairs = append(pairs, form, Mask)
	}
	return strings.NewReplacer(pairs...)
}

// formsOf returns a value as it is, in JSON, in URLs and in base64. In base64 the value may be part of a longer text.
// It then starts at one of three positions within a group of characters.
func formsOf(value string) []string {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if quoted, err := json.Marshal(value); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
			// The first characters contain bits of the preceding text, and the last one of the following text.
			encoded = encoded[[]int{0, 2, 3}[before]:]
			if (len(value)+before)%3 != 0 {
				encoded = encoded[:len(encoded)-1]
			}
			if len(encoded) >= shortest {
				forms = append(forms, encoded)
			}
		}
	}
	return forms
}
