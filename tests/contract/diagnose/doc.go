// Package diagnose checks what users read about manifests that lack something. Its clusters never come to rest, so they
// have an API server of their own.
package diagnose
