package memkube

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// keepHistory is the number of changes of a resource that a watch may lag behind. Older watches get "410 Gone".
const keepHistory = 20000

// change is an event of a resource: the object before and after. Before is nil for a new object, after is nil for a
// deleted one.
type change struct {
	rv            int64
	before, after *item
}

// put stores an object under a new resource version.
func (s *Server) put(t *table, key string, obj *unstructured.Unstructured) *item {
	s.rv++
	obj.SetResourceVersion(strconv.FormatInt(s.rv, 10))
	obj.SetGroupVersionKind(t.gvk())
	raw, err := json.Marshal(obj.Object)
	must(err)
	next := &item{obj: obj, raw: raw}
	before := t.items[key]
	t.items[key] = next
	s.trackOwners(t, key, before, next)
	s.announce(t, change{s.rv, before, next})
	return next
}

// remove deletes an object and runs the garbage collector.
func (s *Server) remove(t *table, key string, obj *unstructured.Unstructured) *item {
	s.rv++
	last := obj.DeepCopy()
	last.SetResourceVersion(strconv.FormatInt(s.rv, 10))
	raw, err := json.Marshal(last.Object)
	must(err)
	final := &item{obj: last, raw: raw}
	before := t.items[key]
	delete(t.items, key)
	s.trackOwners(t, key, before, nil)
	s.announce(t, change{rv: s.rv, before: final})
	s.collect(obj.GetUID())
	s.afterRemove(t, obj)
	return final
}

func (s *Server) announce(t *table, c change) {
	if len(t.history) >= keepHistory {
		t.history = append([]change(nil), t.history[keepHistory/2:]...)
	}
	t.history = append(t.history, c)
	for w := range t.watchers {
		w.offer(c)
	}
}

// newUID returns a UID that is the same in every run.
func (s *Server) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("%s%012d", uidPrefix, s.uids))
}

// uidPrefix begins the UIDs that a Server gives.
const uidPrefix = "00000000-0000-4000-8000-"

// taken records a UID that an object brought from another Server. If newUID gave it again, deleting one object would
// delete the dependents of another.
func (s *Server) taken(uid types.UID) {
	if digits, ours := strings.CutPrefix(string(uid), uidPrefix); ours {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			s.uids = max(s.uids, n)
		}
	}
}

// event converts a change into the event for a watcher with that filter. An object that starts to match is added, and
// an object that stops to match is deleted.
func (c change) event(f filter) (watch.EventType, *item) {
	was := c.before != nil && f.matches(c.before.obj)
	if c.after == nil {
		if was {
			return watch.Deleted, c.before
		}
		return "", nil
	}
	switch is := f.matches(c.after.obj); {
	case is && was:
		return watch.Modified, c.after
	case is:
		return watch.Added, c.after
	case was:
		return watch.Deleted, c.after
	}
	return "", nil
}
