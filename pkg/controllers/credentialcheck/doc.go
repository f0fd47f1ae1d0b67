// Package credentialcheck says on each Cluster whether its cloud credentials work, in condition CloudCredentialValid.
// First the keys of each Secret must fit its driver. Then, if the cloud has a cheap check, a Job asks the cloud.
// Package decide/credentialjob decides when, and describes the Job and the record of its result.
//
//	Cluster ─ gather ─ decide ─┬ act     records (Secrets) and Jobs, an Event on the credential
//	                           └ report  condition CloudCredentialValid
//
// The condition exists for Clusters whose credentials have been checked or have a problem. It never stops the
// provisioning: a check may fail for a reason of its own. While a changed credential is checked, the condition stays.
//
// A server that is killed after any write continues. The record is written before its Job is created, and has its
// result before the Job is deleted. Before a Job is created, the API server is asked for the record, because the cache
// may be older than its result.
//
// # Wake-ups
//
// Object: Cluster. Woken by: Secret (credential, record), Job, Pod, DynamicSchema, Machine (that contradicts). Each
// <Driver>Config and an answer of package access wake it too.
package credentialcheck
