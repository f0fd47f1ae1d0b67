// Package credentials tests how cloud credentials are checked. Drover is a process, and the API server calls its
// webhooks. The Job of a check is a process that asks a small EC2.
package credentials
