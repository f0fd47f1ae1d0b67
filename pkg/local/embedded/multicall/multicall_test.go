package multicall_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/local/embedded/multicall"
)

func TestProgramIsChosenByNameOrFirstArgument(t *testing.T) {
	var got []string
	known := map[string]multicall.Program{
		"etcd":  {Run: func(args []string) int { got = args; return 7 }},
		"apid":  {Run: func([]string) int { return 0 }},
		"inner": {Run: func(args []string) int { got = args; return 8 }, Internal: true},
	}
	tests := map[string]struct {
		argv     []string
		want     []string
		wantCode int
	}{
		"by first argument": {argv: []string{"/x/drover-kube", "etcd", "--flag"},
			want: []string{"etcd", "--flag"}, wantCode: 7},
		"by the name of a link": {argv: []string{"/x/etcd", "--flag"}, want: []string{"/x/etcd", "--flag"},
			wantCode: 7},
		"name before argument": {argv: []string{"etcd", "inner"}, want: []string{"etcd", "inner"}, wantCode: 7},
		"internal program": {argv: []string{"/proc/self/exe", "inner", "x"}, want: []string{"inner", "x"},
			wantCode: 8},
		"unknown program":         {argv: []string{"drover-kube", "kubeadm"}, wantCode: 2},
		"no program":              {argv: []string{"drover-kube"}, wantCode: 2},
		"no program and no name":  {wantCode: 2},
		"flag before the program": {argv: []string{"drover-kube", "--v=2", "etcd"}, wantCode: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got = nil
			var stderr strings.Builder
			if code := multicall.Dispatch(known, test.argv, &stderr); code != test.wantCode {
				t.Errorf("exit code %d, want %d", code, test.wantCode)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			wantText := ""
			if test.wantCode == 2 {
				wantText = "The first argument must be one of apid, etcd\n"
			}
			if stderr.String() != wantText {
				t.Errorf("output %q, want %q", stderr.String(), wantText)
			}
		})
	}
}
