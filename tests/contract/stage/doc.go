// Package stage sets up what the stories on a real API server need: Drover as it runs in production, the controllers of
// Cluster API, and machines played by pkg/testkit/fakeagent. Main is for TestMain, Start for every story.
package stage
