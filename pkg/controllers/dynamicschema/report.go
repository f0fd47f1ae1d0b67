package dynamicschema

// report has no status to write: a schema has none. What is kept for its objects is looked at again, because the deletion
// of an object of a kind wakes no schema.
func (h *handler) report(s snapshot, keptFor use) {
	switch keptFor {
	case unknown:
		h.DynamicSchemas.EnqueueAfter(s.name, lookSoon)
	case used:
		h.DynamicSchemas.EnqueueAfter(s.name, lookAgain)
	case unused:
	}
}
