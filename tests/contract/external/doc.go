// Package external tells the story of tests/contract/simulated with the stock core manager of Cluster API beside Drover, on a
// management plane of its own.
package external
