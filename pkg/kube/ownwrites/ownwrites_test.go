package ownwrites_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestLog_StaleCacheIsDetected(t *testing.T) {
	shown := &metav1.ObjectMeta{UID: "u", ResourceVersion: "5"}
	tests := map[string]struct {
		obj  *metav1.ObjectMeta
		at   time.Duration
		want bool
	}{
		"the replaced version":               {shown, time.Second, true},
		"the next version":                   {&metav1.ObjectMeta{UID: "u", ResourceVersion: "6"}, time.Second, false},
		"another object of the same version": {&metav1.ObjectMeta{UID: "v", ResourceVersion: "5"}, time.Second, false},
		"a cache that is stale forever":      {shown, 10 * time.Second, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log := ownwrites.New()
			log.Replaced("u", "5", start)
			if got := log.Behind(test.obj, start.Add(test.at)); got != test.want {
				t.Errorf("Behind = %v, want %v", got, test.want)
			}
		})
	}
}

func TestLog_WritesAreNotRepeatedAtOnce(t *testing.T) {
	log := ownwrites.New()
	if left := log.Left("a", start); left != 0 {
		t.Errorf("%s left without a write", left)
	}
	log.Did("a", start)
	log.Did("b", start.Add(4*time.Second))
	for at, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 3 * time.Second: 7 * time.Second,
		10 * time.Second: 0, time.Hour: 0} {
		if left := log.Left("a", start.Add(at)); left != want {
			t.Errorf("after %s %s left, want %s", at, left, want)
		}
	}
	log.Did("c", start.Add(11*time.Second))
	if left := log.Left("b", start.Add(11*time.Second)); left != 3*time.Second {
		t.Errorf("%s left of b, want the remaining time after a is forgotten", left)
	}
}

func TestLog_ObjectsDeletedAfterTheCacheShowedThem(t *testing.T) {
	log := ownwrites.New()
	log.Did("a", start)
	log.Did("b", start)
	log.Shown("a")
	if a, b := log.Left("a", start), log.Left("b", start); a != 0 || b != ownwrites.BelievedAfter {
		t.Errorf("%s left of a, %s of b", a, b)
	}
}
