package dynamicschema

// report writes no status, because a schema has none. It requeues a schema whose CRDs stay for their objects, because
// deleting such an object wakes no schema.
func (h *handler) report(s snapshot, keptFor use) {
	switch keptFor {
	case unknown:
		h.DynamicSchemas.EnqueueAfter(s.name, lookSoon)
	case used:
		h.DynamicSchemas.EnqueueAfter(s.name, lookAgain)
	case unused:
	}
}
