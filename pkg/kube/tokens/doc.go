// Package tokens creates a cluster's join tokens: one for servers, and one for workers.
//
// They are in the cluster state secret, with the cluster's other objects. Drover draws them at random once and never
// changes them: joined nodes keep using them, and machines join a restored cluster only with the tokens of its backup.
// Tokens never appear in logs or errors.
package tokens
