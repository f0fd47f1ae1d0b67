package applyset

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Verb is the operation on an object.
type Verb string

// The verbs.
const (
	Create Verb = "Create"
	Update Verb = "Update"
	Delete Verb = "Delete"
	// Refuse: the object belongs to another set, so the set cannot be applied.
	Refuse Verb = "Refuse"
)

// Difference is a change of an object.
type Difference struct {
	Verb      Verb
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	// Patch is the JSON merge patch of an Update.
	Patch map[string]any
	// Reason is why Refuse refuses.
	Reason string
}

// Still is an informer without a watch: the caller fills its store, and no handler is notified.
type Still struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
}

// NewStill returns an empty Still.
func NewStill(indexers cache.Indexers) Still {
	return Still{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
}

// GetIndexer implements cache.SharedIndexInformer.
func (s Still) GetIndexer() cache.Indexer { return s.indexer }

// GetStore implements cache.SharedIndexInformer.
func (s Still) GetStore() cache.Store { return s.indexer }

// AddIndexers implements cache.SharedIndexInformer.
func (s Still) AddIndexers(indexers cache.Indexers) error { return s.indexer.AddIndexers(indexers) }

// HasSynced implements cache.SharedIndexInformer.
func (Still) HasSynced() bool { return true }

// ForeignError reports that a set cannot be applied because some of its objects belong to other sets.
type ForeignError struct {
	error
	Objects []Difference
}

// Unwrap returns the error of the apply.
func (e *ForeignError) Unwrap() error { return e.error }
