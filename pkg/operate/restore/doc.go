// Package restore gathers what a restore of an etcd snapshot would do, before a user asks for it. The command and the
// web UI show the same, and refuse the same.
//
//	Find ──► the snapshot, or why it cannot be restored
//	Brief ─► the fields that go back, and the preview of the request
//	Lines ─► what the user reads
package restore
