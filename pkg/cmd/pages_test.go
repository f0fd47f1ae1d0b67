package cmd

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnchangedAreas(t *testing.T) {
	const smaps = `00400000-01b00000 r-xp 00000000 fe:00 123 /usr/bin/drover
Size:              23552 kB
Rss:               23328 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
01b00000-03400000 r--p 01700000 fe:00 123 /usr/bin/drover
Rss:               24704 kB
Anonymous:             4 kB
03400000-03500000 r--p 02f00000 fe:00 123 /usr/bin/drover
Anonymous:             0 kB
03500000-03600000 rw-p 03000000 fe:00 123 /usr/bin/drover
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 77 /usr/lib/drover
Anonymous:             0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	want := []area{{0x400000, 0x1b00000}, {0x3400000, 0x3500000}}
	if got := unchangedAreas(smaps, "/usr/bin/drover"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The program works as before after releasePages.
func TestReleasePages_KeepsTheContent(t *testing.T) {
	program, err := os.Executable()
	check(t, err)
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(unchangedAreas(string(maps), program)) == 0 {
		t.Errorf("%s has no unchanged areas", program)
	}
	releasePages()
	if got := strings.Repeat("as before", 2); got != "as beforeas before" {
		t.Errorf("got %q", got)
	}
}
