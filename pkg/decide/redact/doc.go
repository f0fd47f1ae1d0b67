// Package redact takes secrets out of texts that people are shown: the ends of outputs in conditions, reports, support bundles.
//
// There are two ways to find a secret, and callers use both. Secrets knows values, because they stand in Secrets that were read, and finds
// them wherever they are. Text knows how programs and people announce a secret, "password: …", and takes away what follows.
package redact
