package ownwrites

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The memory is as large as the writes of a few seconds, however many objects there were.
func TestMemory_IsBounded(t *testing.T) {
	s, p := NewStatuses(), NewPatience(time.Second)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 10000 {
		uid := types.UID(strconv.Itoa(i))
		s.Wrote(&metav1.ObjectMeta{UID: uid, ResourceVersion: "1"}, &metav1.ObjectMeta{UID: uid, ResourceVersion: "2"},
			now)
		p.Left(uid, now) // without End, as for objects that are deleted meanwhile
		now = now.Add(10 * time.Millisecond)
	}
	if len(s.written) > 300 || len(s.log.replaced) > 1000 || len(p.since) > 200 {
		t.Errorf("%d texts, %d versions and %d waits are remembered", len(s.written), len(s.log.replaced), len(p.since))
	}
}
