// Package stories tells how controllers work together, on the API server in
// memory and in virtual time: a cluster is made, settles, is edited, is deleted;
// the process is killed after every single write and started again.
//
// Its code is all in tests. The pieces they share are the story (a world with
// the controllers of the cluster layer in it, which can be stopped and started)
// and core, which plays Cluster API's core controllers as far as these stories
// need them.
package stories
