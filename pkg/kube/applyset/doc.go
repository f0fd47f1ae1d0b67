// Package applyset keeps the objects of an owner equal to a desired set: it creates, changes and deletes them. It is
// the only package that uses wrangler's apply, and works around these problems:
//
//   - apply copies the first 64 base64 characters of every Secret value into an annotation, which is a whole token in
//     most cases. Set refuses Secrets. The type Secrets writes them, with the same identity but without that
//     annotation.
//   - apply allows ten changes of a set, then one a second, and blocks the worker. Set allows a hundred a second.
//   - apply lists a kind without a cache live, in all namespaces, on every call. Set requires a started cache.
//   - An empty set deletes everything, which looks like a caller without an opinion. Apply refuses it. Purge is
//     explicit.
//   - If two objects have the same name, apply silently uses the last one. Set refuses them.
//   - apply takes over an existing object, even from another set. Set refuses that too.
//   - Without owner references, the objects remain if their owner is deleted while Drover does not run. Every set has
//     to choose its owner references. wrangler's own option for them is inverted.
//
// A set is identified by its id and by the kind, namespace and name of its owner, but not by the owner's UID. Ids are
// persisted: changing one orphans every object of the set. The identity is written as label
// objectset.rio.cattle.io/hash and four annotations, which backup and support tooling reads
// (docs/wire/names.md#apply-sets).
package applyset
