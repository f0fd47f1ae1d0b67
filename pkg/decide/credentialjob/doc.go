// Package credentialjob decides when Drover checks whether a cloud accepts a credential, and describes the Job that
// does it. Only some clouds have a cheap check: EC2 lists its regions, and vSphere logs in.
//
//	credential, machine config ── Ask ──► Question ── Render ──► Secret (record) and Job
//	the Job's pod ──► Result ── Finished ──► the record has the result, and the Job is deleted
//
// The record is a Secret in the namespace of the Cluster. While the Job runs, it has the question with the credential.
// Afterwards it has only the result. Its name follows from the version of the credential and from the address and
// region in the machine config. So each version of a credential is checked once for each address, whichever clusters
// use it, and a server that crashed finds its record again. A user who deletes the record gets another check. Drover
// checks again, at most once an hour, if a machine contradicts the result: a Job fails although the credential was
// valid, or a host becomes ready although it was not.
//
// The pod runs Drover's own image, has no token of a service account, and satisfies the Pod Security Standard
// "restricted". It is in the Cluster's namespace, because the users of that namespace choose the address. Machines are
// made from there, too.
//
// All functions are pure.
package credentialjob
