package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/server"
)

func TestLimits_AreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, limit := range new(server.Limits).All() {
		names = append(names, limit.Name)
		row := fmt.Sprintf("| `%s` | %s |", limit.Name, size(limit.Default))
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/security.md must have a row that begins with %s", row)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("limits must be sorted by name: %q", names)
	}
}

// size writes a number as administrators write it.
func size(number int64) string {
	switch {
	case number >= 1<<20 && number%(1<<20) == 0:
		return fmt.Sprintf("%dMi", number>>20)
	case number >= 1<<10 && number%(1<<10) == 0:
		return fmt.Sprintf("%dKi", number>>10)
	default:
		return strconv.FormatInt(number, 10)
	}
}

func TestLimits_AreSetByName(t *testing.T) {
	for _, tt := range []struct {
		name, limit, value, wantError string
		want                          int64
	}{
		{name: "a number", limit: "proxy-requests", value: "800", want: 800},
		{name: "a size", limit: "proxy-requests", value: "2Ki", want: 2048},
		{name: "an unknown name lists the names", limit: "proxy", value: "1", wantError: "use one of"},
		{name: "zero is refused", limit: "proxy-requests", value: "0", wantError: "at least 1"},
		{name: "a fraction is refused", limit: "proxy-requests", value: "1.5", wantError: "whole number"},
		{name: "text is refused", limit: "proxy-requests", value: "many", wantError: "whole number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var limits server.Limits
			err := limits.Set(tt.limit, tt.value)
			if tt.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantError) {
					t.Fatalf("error is %v, want one with %q", err, tt.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if limits.ProxyRequests != tt.want {
				t.Errorf("the limit is %d, want %d", limits.ProxyRequests, tt.want)
			}
		})
	}
}
