package cmd

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type counts map[string]int

func (c counts) Increment(_ context.Context, code, method, host string) {
	c[method+" "+host+" "+code]++
}

func TestOneHost_CountsClustersTogether(t *testing.T) {
	got := counts{}
	one := &oneHost{ResultMetric: got}
	for _, host := range []string{"10.0.0.1:6443", "c-m-1", "c-m-2", "10.0.0.1:6443", "192.0.2.7:6443"} {
		one.Increment(t.Context(), "200", "GET", host)
	}
	if diff := cmp.Diff(counts{"GET 10.0.0.1:6443 200": 2, "GET clusters 200": 3}, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
