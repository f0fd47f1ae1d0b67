// Package credential decides what the Secret of a cloud credential contains.
//
//	typed values, fields of the driver's schema ── Check ──► problems, without the values
//	                                            ── Request.Secret, Replaced ──► the Secret to write
//
// A credential is replaced as a whole. A new key together with a former secret would be a credential that never
// existed.
package credential
