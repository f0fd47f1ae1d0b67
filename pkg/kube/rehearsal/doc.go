// Package rehearsal lets the controllers act on objects without writing any: a Stage reads what there is once, keeps what they write to itself, shows it to
// them from then on, and tells in the end what would be different. So whoever asks what a controller would do is answered by the controller itself, and
// what is told and what is then done cannot disagree.
//
// # What a stage is not
//
// Nobody else acts on it: no Cluster API, no nodes, no agents. It does for the controllers what the API server does at once: it gives UIDs and versions,
// refuses writes of versions that are old, and fills in the token of a service account. Admission does not judge.
//
// A stage is used by one goroutine.
package rehearsal
