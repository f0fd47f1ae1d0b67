package nodeplan

import (
	"bytes"
	"encoding/base64"
	"slices"
)

// EncodeHostKeys returns the value of KeySSHHostKeys from the content of public key files. Each key is a line with its
// type and its base64 text. Comments are omitted, and so is a file that holds no key. The lines are sorted, so equal
// keys have equal values. Keys beyond MaxHostKeysSize are omitted.
func EncodeHostKeys(files [][]byte) []byte {
	var lines [][]byte
	for _, file := range files {
		fields := bytes.Fields(file)
		if len(fields) < 2 {
			continue
		}
		if _, err := base64.StdEncoding.DecodeString(string(fields[1])); err != nil {
			continue
		}
		lines = append(lines, slices.Concat(fields[0], []byte(" "), fields[1], []byte("\n")))
	}
	slices.SortFunc(lines, bytes.Compare)
	value := []byte{}
	for _, line := range slices.CompactFunc(lines, bytes.Equal) {
		if len(value)+len(line) <= MaxHostKeysSize {
			value = append(value, line...)
		}
	}
	return value
}
