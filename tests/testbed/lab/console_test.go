package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConsole_ReturnsWholeLinesOfTheEnd(t *testing.T) {
	l := newLab(Config{Name: "unit", Dir: t.TempDir()})
	if _, err := l.Console("one"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a machine that does not exist: got %v, want %v", err, ErrNotFound)
	}
	if err := os.MkdirAll(l.folder("one"), 0o700); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		"":             "",
		"short\nlog\n": "short\nlog\n",
		strings.Repeat("x", consoleEnd) + "\nthe end\n": "the end\n",
	} {
		if err := os.WriteFile(filepath.Join(l.folder("one"), "console.log"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Console("one"); err != nil || string(got) != want {
			t.Errorf("got %.40q, %v; want %q", got, err, want)
		}
	}
}
