package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func line(name string) string {
	return fmt.Sprintf(`{"stage":"ResponseComplete","verb":"patch","requestURI":"/x?dryRun=All",`+
		`"objectRef":{"resource":"pods","name":%q}}`+"\n", name)
}

// A follower reads each line once: of a log that does not exist yet, that grows in the middle of a line, and that the
// API server rotates.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	follower := Follow(path)
	defer func() { _ = follower.Close() }()
	add := func(text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"no log", func() {}, nil},
		{"two lines and a part", func() { add(line("a") + line("b") + line("c")[:10]) }, []string{"a", "b"}},
		{"the other part", func() { add(line("c")[10:]) }, []string{"c"}},
		{"nothing new", func() {}, nil},
		{"rotation", func() {
			add(line("d"))
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			add(line("e"))
		}, []string{"d", "e"}},
	}
	for _, step := range steps {
		step.do()
		var got []string
		err := follower.Read(func(w Write) {
			got = append(got, w.Name)
			if !w.DryRun {
				t.Errorf("%s: %s is a dry run", step.name, w.Name)
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
