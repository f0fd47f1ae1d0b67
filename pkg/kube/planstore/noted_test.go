package planstore

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestNotedVersion_IsValidForItsUIDOnly(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		Noted("here", "12"): "12", "": "", "12": "", "here:": "", "here:x": "", "there:12": "", ":12": "",
	} {
		cluster := &metav1.ObjectMeta{UID: "here", Annotations: map[string]string{rkev1.NotedAnnotation: value}}
		if got := NotedVersion(cluster); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
}

func TestLatest_ComparesNumbers(t *testing.T) {
	t.Parallel()
	if got := Latest("9", "", "x", "10", "2"); got != "10" {
		t.Error(got)
	}
	if got := Latest("", "x"); got != "" {
		t.Error(got)
	}
	for seen, want := range map[string]bool{"9": false, "10": true, "11": true, "": false, "x": false} {
		if Reached(seen, "10") != want {
			t.Errorf("%q has reached 10: %t", seen, !want)
		}
	}
}
