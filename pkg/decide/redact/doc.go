// Package redact removes secrets from texts for users: the ends of outputs in conditions, reports and support bundles.
//
// There are two ways to find a secret, and callers use both. Secrets knows values that were read from Secrets, and
// finds them anywhere. Text knows how programs and users introduce a secret, "password: …", and removes what follows.
package redact
