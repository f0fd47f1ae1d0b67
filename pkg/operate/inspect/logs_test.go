package inspect

import "testing"

func TestTail(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lines int64
		want  string
	}{
		"all":          {"a\nb\n", -1, "a\nb\n"},
		"none":         {"a\nb\n", 0, ""},
		"the last":     {"a\nb\n", 1, "b\n"},
		"as many":      {"a\nb\n", 2, "a\nb\n"},
		"more":         {"a\nb\n", 3, "a\nb\n"},
		"without text": {"", 3, ""},
	} {
		if got := tail(c.text, c.lines); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestNewLines(t *testing.T) {
	for name, c := range map[string]struct{ shown, text, want string }{
		"the first":                   {"", "1 a\n", "1 a\n"},
		"nothing new":                 {"1 a\n", "1 a\n", ""},
		"one more":                    {"1 a\n2 b\n", "1 a\n2 b\n3 c\n", "3 c\n"},
		"older lines are removed":     {"1 a\n2 b\n", "2 b\n3 c\n", "3 c\n"},
		"all shown lines are removed": {"1 a\n", "3 c\n4 d\n", "3 c\n4 d\n"},
		"a line that ends like it":    {"a\n", "1 a\n", "1 a\n"},
	} {
		if got := newLines(c.shown, c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
