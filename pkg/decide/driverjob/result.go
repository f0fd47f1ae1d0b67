package driverjob

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drover-io/drover/pkg/decide/driverschema"
)

const (
	// MaxMessage is the number of bytes of a termination message that the kubelet keeps.
	MaxMessage = 4096
	// MaxFlags is the maximum number of a driver's flags.
	MaxFlags = 500

	maxPlain = 256 << 10 // the size of the unpacked answer, in bytes
	maxName  = 128       // of a flag or of an environment variable
	maxText  = 1024      // of a description or of a default
	maxItems = 64        // of the default of a list

	// answerPrefix begins the answer, so that other output is not mistaken for one.
	answerPrefix = "flags/1:"
)

var (
	// flagName matches names of flags and environment variables.
	flagName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	sha256   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Download is the result of the container that downloads a driver.
type Download struct {
	// Name is the driver's name according to the program's file name.
	Name string `json:"name"`
	// SHA256 is the checksum of the download, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// Encode returns the termination message for a download.
func (d Download) Encode() string {
	content, err := json.Marshal(d)
	if err != nil {
		return "" // two strings always encode
	}
	return string(content)
}

// DecodeDownload reads the termination message of a download.
func DecodeDownload(message string) (Download, error) {
	var d Download
	if len(message) > MaxMessage || json.Unmarshal([]byte(message), &d) != nil || !sha256.MatchString(d.SHA256) {
		return Download{}, errors.New("the result of the download is unreadable")
	}
	return d, driverschema.ValidName(d.Name)
}

// EncodeFlags returns the termination message for the flags of a driver. If it would be too long, the descriptions of
// flags become shorter.
func EncodeFlags(flags []driverschema.Flag) (string, error) {
	if err := check(flags); err != nil {
		return "", err
	}
	for _, limit := range []int{maxText, 200, 100, 60, 30, 0} {
		message, err := encode(flags, limit)
		if err != nil || len(message) <= MaxMessage {
			return message, err
		}
	}
	return "", fmt.Errorf("the driver has too many flags: the names and defaults of its %d flags do not fit into %d "+
		"compressed bytes", len(flags), MaxMessage)
}

func encode(flags []driverschema.Flag, limit int) (string, error) {
	short := make([]driverschema.Flag, len(flags))
	for i, flag := range flags {
		short[i] = flag
		short[i].Usage = clip(flag.Usage, limit)
	}
	content, err := json.Marshal(short)
	if err != nil {
		return "", fmt.Errorf("encode the flags: %w", err)
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", fmt.Errorf("compress the flags: %w", err)
	}
	if _, err := writer.Write(content); err != nil {
		return "", fmt.Errorf("compress the flags: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compress the flags: %w", err)
	}
	return answerPrefix + base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// clip returns a text on one line, without control characters, of at most limit bytes.
func clip(text string, limit int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	const more = "…"
	cut := limit - len(more)
	if cut <= 0 {
		return ""
	}
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// DecodeFlags reads the flags of a driver. The message comes from a container that runs third-party code, so every size
// is bounded.
func DecodeFlags(message string) ([]driverschema.Flag, error) {
	encoded, ok := strings.CutPrefix(message, answerPrefix)
	if !ok || len(message) > MaxMessage {
		return nil, errors.New("the answer of the driver is unreadable")
	}
	packed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("the answer of the driver is unreadable: it must be in base64")
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errors.New("the answer of the driver is unreadable: it must be gzipped")
	}
	content, err := io.ReadAll(io.LimitReader(reader, maxPlain+1))
	if err != nil {
		return nil, errors.New("the answer of the driver is unreadable: it must be gzipped")
	}
	if len(content) > maxPlain {
		return nil, fmt.Errorf("the answer of the driver is larger than %d bytes", maxPlain)
	}
	flags := []driverschema.Flag{}
	if err := json.Unmarshal(content, &flags); err != nil || flags == nil {
		return nil, errors.New("the answer of the driver is unreadable: it must be a list of flags in JSON")
	}
	if err := check(flags); err != nil {
		return nil, err
	}
	for i := range flags {
		flags[i].Usage = clip(flags[i].Usage, maxText)
	}
	return flags, nil
}

// check returns an error for flags that no driver needs. Errors do not repeat long or unprintable texts.
func check(flags []driverschema.Flag) error {
	if len(flags) > MaxFlags {
		return fmt.Errorf("the driver has %d flags, more than %d", len(flags), MaxFlags)
	}
	for i, flag := range flags {
		switch {
		case !flagName.MatchString(flag.Name) || len(flag.Name) > maxName:
			return fmt.Errorf("the name of flag %d of the driver is invalid: use at most %d letters, digits and -", i+1,
				maxName)
		case flag.EnvVar != "" && (!flagName.MatchString(flag.EnvVar) || len(flag.EnvVar) > maxName):
			return fmt.Errorf("flag %q of the driver has an invalid environment variable", flag.Name)
		case !isText(flag.Default):
			return invalidDefault(flag.Name)
		case len(flag.List) > maxItems:
			return fmt.Errorf("the default of flag %q of the driver has more than %d entries", flag.Name, maxItems)
		}
		for _, item := range flag.List {
			if !isText(item) {
				return invalidDefault(flag.Name)
			}
		}
	}
	return nil
}

func invalidDefault(flag string) error {
	return fmt.Errorf("the default of flag %q of the driver is invalid: use at most %d bytes of text", flag, maxText)
}

func isText(text string) bool { return len(text) <= maxText && utf8.ValidString(text) }
