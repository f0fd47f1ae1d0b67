// Package admission decides what the Kubernetes API refuses, completes and warns about before it stores an object. It
// gets all input as values and does no I/O. Package admission/webhook calls it for the API server, over HTTPS.
//
//	answer, err := admission.Decide(request)     // a validating webhook
//	answer, err := admission.Complete(request)   // a mutating webhook
//
// A [Request] is one review. It contains the operation, the kind, the objects before and after as JSON, the user, and
// the [Facts] about other objects. An [Answer] refuses (Errors, or Forbidden), warns (Warnings) or changes the object
// (Patches). An error means that admission could not decide. The webhook then fails, and the failure policy applies.
//
// Every rule is one entry of the list rules (or completions), with its kinds and operations. docs/admission.md has a
// line for each. To add one:
//
//  1. Write func(r Request, a *Answer) error. Read the objects with decode. Refuse with a.refuse(field errors), which
//     is 422 Invalid, or a.forbid(sentence), which is 403.
//  2. If it needs other objects, add a field to Facts. Its zero value means "not known", and unknown facts must not
//     cause a refusal. Package webhook fills the field, from caches or with a request such as a SubjectAccessReview.
//     NamedBy selects single objects.
//  3. Add it to rules. If no webhook is called for its kind yet, add the kind to the configuration in
//     charts/drover/files.
//
// The rules follow these principles:
//
//   - They accept what a controller accepts, and refuse what it refuses with the same words, because they call the same
//     functions. The controller waits for other objects that are still missing, such as a machine config. A rule
//     without a counterpart in a controller covers only what a controller would report too late, or what would fail in
//     another component.
//   - An object may keep what it has: an update is refused only for new mistakes. Objects that are being deleted, and
//     clusters of another manager, pass.
//   - Rules that need no code are not here. Immutable fields and protection against deletion are
//     ValidatingAdmissionPolicies (charts/drover/files/admission-policies.yaml), which work while Drover does not run.
package admission
