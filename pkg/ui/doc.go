// Package ui serves Drover's web UI: built files, sessions, a stream of rows, and endpoints over package operate.
//
//	browser ─ cookie ─► session (sealed token) ─► caller ─► management cluster, with the caller's token
//	    /ui/api/v1/stream ◄─ hub: one watch per kind, shared by the caller's tabs
//	    /ui/api/v1/…      ◄─ pkg/operate: diagnose, explain, preview, support bundle
//	    PUT, DELETE       ─► pkg/operate/apply: what was previewed, with the caller's token
//
// The UI has no rights of its own. Every read and write uses the credential of the caller: in server mode the bearer
// token with which the user signed in, in local mode the user's kubeconfig. The only object that the server itself
// reads is the Secret with the key that seals sessions. A SelfSubjectReview with the caller's token verifies a sign-in;
// every user may create one.
//
// endpoints.go is the table of endpoints. It routes requests, and the OpenAPI document is made from it.
package ui
