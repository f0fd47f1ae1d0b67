// Package stage sets up the stories on a real API server: Drover as in production, Cluster API's controllers, and
// machines simulated by pkg/testkit/fakeagent. Main is for TestMain, Start for every story.
package stage
