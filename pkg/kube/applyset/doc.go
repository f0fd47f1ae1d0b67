// Package applyset keeps a set of objects that belong to an owner: what is desired is made or changed, what is no longer
// desired is deleted. It is the only package that uses wrangler's apply, whose edges it takes off:
//
//   - apply copies the first 64 base64 characters of every value of a Secret into an annotation, which is a whole token in
//     most cases. Set refuses Secrets; Secrets (the type) writes them, with the same identity but without that annotation;
//   - a set may be changed ten times, then once a second, and blocks the worker meanwhile. Set allows a hundred a second;
//   - a kind without a cache is listed live, in all namespaces, on every call. Set insists on a started cache;
//   - an empty set deletes everything, which looks the same as having no opinion. Apply refuses it; Purge is explicit;
//   - of two objects with the same name the last one wins silently. Set refuses them;
//   - an existing object is taken over, even from another set. Set refuses that one too;
//   - without owner references, the deletion of an owner while Drover does not run leaves its objects behind. The policy for
//     owner references has to be chosen for each set; wrangler's own option for it is inverted.
//
// A set is identified by its id and by the kind, namespace and name of its owner, but not by the owner's UID: ids are
// persisted, and changing one orphans every object of the set. Identity is written as label objectset.rio.cattle.io/hash and
// four annotations, which backup and support tooling reads (docs/wire/names.md#apply-sets).
package applyset
