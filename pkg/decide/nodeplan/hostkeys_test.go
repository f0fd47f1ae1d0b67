package nodeplan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncodeHostKeys(t *testing.T) {
	long := "ssh-rsa " + strings.Repeat("AAAA", 1500) + "\n"
	longer := "ssh-rsb " + strings.Repeat("BBBB", 1500) + "\n"
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"no files": {},
		"sorted, without comments": {[]string{"ssh-rsa BBBB root@host\n", "ecdsa-sha2-nistp256 AAAA"},
			"ecdsa-sha2-nistp256 AAAA\nssh-rsa BBBB\n"},
		"a key twice":           {[]string{"ssh-rsa AAAA a", "ssh-rsa AAAA b"}, "ssh-rsa AAAA\n"},
		"files without a key":   {[]string{"", "ssh-rsa", "ssh-rsa not*base64 x", "ssh-rsa AAAA"}, "ssh-rsa AAAA\n"},
		"more than the limit":   {[]string{longer, long, "ssh-xyz AAAA"}, long + "ssh-xyz AAAA\n"},
		"a comment of words":    {[]string{"ssh-rsa AAAA of the host\n"}, "ssh-rsa AAAA\n"},
		"a file of many blanks": {[]string{" \n\t ssh-rsa \t AAAA"}, "ssh-rsa AAAA\n"},
	} {
		var files [][]byte
		for _, file := range c.files {
			files = append(files, []byte(file))
		}
		if diff := cmp.Diff(c.want, string(EncodeHostKeys(files))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
