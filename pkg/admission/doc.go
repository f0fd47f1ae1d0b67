// Package admission decides what the Kubernetes API refuses, completes and warns of before it stores an object. It is told
// everything as values and does no I/O: package admission/webhook asks it, over HTTPS, in the name of the API server.
//
//	answer, err := admission.Decide(request)     // a validating webhook
//	answer, err := admission.Complete(request)   // a mutating webhook
//
// A [Request] is one review: operation, kind, the objects before and after as JSON, the user, and the [Facts], which are what
// other objects say. An [Answer] refuses (Errors, or Forbidden), warns (Warnings) or changes the object (Patches). An error means
// that nothing could be decided; the webhook then fails, and what that means is up to the failure policy.
//
// Every rule is one entry of the list rules (or completions), with the kinds and operations it is for; docs/admission.md has a
// line for each. To add one:
//
//  1. Write func(r Request, a *Answer) error. Read the objects with decode. Refuse with a.refuse(field errors), which is 422
//     Invalid, or a.forbid(sentence), which is 403.
//  2. If it needs more than the objects, add a field to Facts of which the zero value means "not known", and do not refuse
//     because of what is not known. Package webhook fills it, from caches or by asking (a SubjectAccessReview, for example). Of single
//     objects NamedBy says which.
//  3. Add it to rules, and its kind to the configuration in charts/drover/files if no webhook is called for that kind yet.
//
// What the rules hold to:
//
//   - What a controller would accept is not refused, and what it would refuse is refused with its words: the rules call the
//     same functions. What another object may still bring, such as a machine config, is the controller's to wait for. Rules of
//     their own are only for what the controller could not say in time: it would be too late, or somebody else's failure.
//   - What an object had before it may keep: an update is refused only for what is wrong with it now and was not before.
//     Objects that are being deleted, and clusters of another manager, are let pass.
//   - What depends on nobody's code is not here: immutable fields and protection against deletion are
//     ValidatingAdmissionPolicies (charts/drover/files/admission-policies.yaml), which work while Drover does not run.
package admission
